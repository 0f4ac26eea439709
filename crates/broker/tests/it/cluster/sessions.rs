//! A client identifier is connected only once in a cluster.

use std::fs;

use phalanx_access::passwd;
use phalanx_mqtt::{QoS, Reason, Version};
use phalanx_testkit::mqtt::{Client, ConnectOptions};

use super::{cluster, cluster_of};

#[test]
fn a_client_that_connects_elsewhere_is_disconnected() {
    let Some((_nats, nodes)) = cluster(&["a", "b"]) else { return };
    let mut first = Client::new(nodes[0].address, "roaming");
    first.subscribe("t", QoS::AtLeastOnce);
    let mut second = Client::new(nodes[1].address, "roaming");
    assert_eq!(first.wait_for_close(), Some(Reason::SESSION_TAKEN_OVER));
    second.subscribe("t", QoS::AtLeastOnce);
    // The client returns, and its session at the other node ends.
    let mut third = Client::new(nodes[0].address, "roaming");
    assert_eq!(second.wait_for_close(), Some(Reason::SESSION_TAKEN_OVER));
    third.expect_no_message();
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
    assert_eq!(first.wait_for_close(), Some(Reason::SESSION_TAKEN_OVER));
    assert_eq!(other.wait_for_close(), Some(Reason::SESSION_TAKEN_OVER));
    second.expect_no_message();
    back.expect_no_message();
}

#[test]
fn another_user_does_not_end_a_session_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let users = directory.path().join("users");
    let text = passwd::set("", "eve", b"apple").unwrap();
    fs::write(&users, passwd::set(&text, "mallory", b"pear").unwrap()).unwrap();
    let Some((_nats, nodes)) = cluster_of(&["a", "b"], |config| {
        config.security.password_file = Some(users.clone());
        config.security.allow_anonymous = true;
    }) else {
        return;
    };
    let (eve, mallory) = (Some(("eve", "apple")), Some(("mallory", "pear")));
    let kept = || ConnectOptions { login: eve, ..ConnectOptions::persistent("kept") };
    let (mut offline, _) = Client::connect_with(nodes[1].address, &kept());
    offline.subscribe("t", QoS::AtLeastOnce);
    drop(offline);
    let begin = |id, login| ConnectOptions { login, ..ConnectOptions::new(Version::V5, id) };
    let (mut connected, _) = Client::connect_with(nodes[1].address, &begin("connected", eve));
    let (mut last, _) = Client::connect_with(nodes[1].address, &begin("last", eve));
    let _others = [("kept", mallory), ("connected", None)]
        .map(|(id, login)| Client::connect_with(nodes[0].address, &begin(id, login)));
    // Claims arrive in order, so the others arrived before the one for the same user.
    let _last = Client::connect_with(nodes[0].address, &begin("last", eve));
    assert_eq!(last.wait_for_close(), Some(Reason::SESSION_TAKEN_OVER));
    connected.expect_no_message();
    let (_back, present) = Client::connect_with(nodes[1].address, &kept());
    assert!(present, "the session of the other user stays");
}

#[test]
fn clients_cannot_be_nodes() {
    let Some((_nats, nodes)) = cluster(&["a"]) else { return };
    let begin = ConnectOptions::new(Version::V5, "$cluster/a");
    let refused = Client::expect_rejection(nodes[0].address, &begin);
    assert_eq!(refused, Reason::CLIENT_IDENTIFIER_NOT_VALID);
}
