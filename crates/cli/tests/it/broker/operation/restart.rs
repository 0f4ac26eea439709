//! Immediate restart of a killed broker at the same address.

use phalanx_testkit::mqtt::Client;
use phalanx_testkit::tcp::unique_loopback;

use crate::broker::process::Broker;

crate::on_each_driver!(a_killed_broker_starts_again_at_its_address);

/// With io_uring, the kernel releases the listening sockets of a killed process some milliseconds after its exit
/// status.
fn a_killed_broker_starts_again_at_its_address(driver: &str) {
    let mut broker = Broker::start_at(driver, (unique_loopback(), 0).into());
    let address = broker.address;
    for _ in 0..4 {
        let clients: Vec<_> =
            (0..100).map(|n| Client::new(&broker, &format!("client {n}"))).collect();
        broker.crashes();
        broker = Broker::start_at(driver, address);
        drop(clients);
    }
}
