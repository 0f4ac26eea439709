//! A client identifier is connected once in a cluster.

use phalanx_mqtt::{QoS, Reason};
use phalanx_testkit::mqtt::Client;

use super::cluster;

#[test]
fn a_client_that_connects_elsewhere_is_disconnected() {
    let Some((_nats, nodes)) = cluster(&["a", "b"]) else { return };
    let mut first = Client::new(nodes[0].address, "roaming");
    first.subscribe("t", QoS::AtLeastOnce);
    let mut second = Client::new(nodes[1].address, "roaming");
    assert_eq!(first.ended(), Some(Reason::SESSION_TAKEN_OVER));
    second.subscribe("t", QoS::AtLeastOnce);
    // And back, with the session at the other node ended.
    let mut third = Client::new(nodes[0].address, "roaming");
    assert_eq!(second.ended(), Some(Reason::SESSION_TAKEN_OVER));
    third.receives_nothing();
}

#[test]
fn a_client_that_moves_while_nats_is_away_is_disconnected_later() {
    let Some((mut nats, nodes)) = cluster(&["a", "b"]) else { return };
    let mut first = Client::new(nodes[0].address, "roaming");
    let mut other = Client::new(nodes[1].address, "other");
    nats.stop();
    let mut second = Client::new(nodes[1].address, "roaming");
    let mut back = Client::new(nodes[0].address, "other");
    nats.restart();
    assert_eq!(first.ended(), Some(Reason::SESSION_TAKEN_OVER));
    assert_eq!(other.ended(), Some(Reason::SESSION_TAKEN_OVER));
    second.receives_nothing();
    back.receives_nothing();
}

#[test]
fn clients_cannot_be_nodes() {
    let Some((_nats, nodes)) = cluster(&["a"]) else { return };
    let begin = phalanx_testkit::mqtt::Begin::of(phalanx_mqtt::Version::V5, "$cluster/a");
    let refused = Client::refused(nodes[0].address, &begin);
    assert_eq!(refused, Reason::CLIENT_IDENTIFIER_NOT_VALID);
}
