//! Bridges over TLS, with names, passwords and client certificates.

use phalanx_broker::{BridgeTls, Direction, Scheme, Tls};
use phalanx_mqtt::QoS;
use phalanx_testkit::authority::Authority;
use phalanx_testkit::mqtt::Client;

use super::{Node, any, bridge, config, next, publish, topic};

#[test]
fn certificates_are_verified_in_both_directions() {
    let authority = Authority::new();
    let pair = authority.sign("server", &["localhost"]);
    let mut own = config(any(), Vec::new());
    own.listen = vec![Scheme::Mqtts.at(any())];
    own.security.tls = Some(Tls {
        certificate: pair.certificate,
        key: pair.key,
        client_authorities: Some(authority.certificate()),
        client_revoked: None,
    });
    let remote = Node::start(own);
    let client = authority.sign_client("site-1");
    let of = |name: &str, host: &str, with_certificate: bool| {
        let mut own = bridge(name, remote.address, vec![topic("a/#", Direction::Both, 1)]);
        own.address = vec![format!("mqtts://{host}:{}", remote.address.port()).parse().unwrap()];
        let mut tls =
            BridgeTls { authorities: Some(authority.certificate()), ..BridgeTls::default() };
        if with_certificate {
            tls.certificate = Some(client.certificate.clone());
            tls.key = Some(client.key.clone());
        }
        own.tls = Some(tls);
        own
    };
    let bridges = vec![of("good", "localhost", true), of("misnamed", "127.0.0.1", true)];
    let local = Node::start(config(any(), bridges));
    local.wait_for_bridge("good");
    let mut here = local.subscriber("a/#", QoS::AtLeastOnce);
    let far = Node::start(config(any(), vec![of("far", "localhost", true)]));
    far.wait_for_bridge("far");
    publish(&mut Client::new(far.address, "publisher"), "a/b", "x", QoS::AtLeastOnce, false);
    assert_eq!(next(&mut here).1, "x");
    // A certificate for another name is not accepted.
    super::await_state(local.address, "misnamed", "0");
}
