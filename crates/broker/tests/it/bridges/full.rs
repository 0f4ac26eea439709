//! A bridge to a broker whose journal is full.

use phalanx_broker::Direction;
use phalanx_mqtt::QoS;
use phalanx_testkit::mqtt::{Client, ConnectOptions};

use super::{Node, any, bridge, config, fill, receive_all, topic};

#[test]
fn messages_of_the_remote_broker_wait_while_the_journal_is_full() {
    let remote = Node::start(config(any(), Vec::new()));
    let home = tempfile::tempdir().unwrap();
    let topics = vec![topic("t", Direction::In, 1)];
    let mut small = config(any(), vec![bridge("b", remote.address, topics)]);
    small.persistence_dir = Some(home.path().into());
    small.limits.persistence_bytes = 200_000;
    let local = Node::start(small);
    local.wait_for_bridge("b");
    let begin = ConnectOptions::persistent("subscriber");
    let (mut subscriber, _) = Client::connect_with(local.address, &begin);
    subscriber.subscribe("t", QoS::AtLeastOnce);
    drop(subscriber);
    fill(remote.address, local.address);
    receive_all(&mut Client::connect_with(local.address, &begin).0);
}
