//! Counts the calls of the general allocator for each QoS 0 message after a warm-up.
//!
//! Calls are counted in the whole process, including the broker's threads; the test's clients reuse their
//! buffers and do not allocate. `PHALANX_ALLOCATIONS=1` prints the stacks of the calls.

#[path = "it/common.rs"]
mod common;

use std::io::{Read, Write};
use std::net::SocketAddr;

use common::{bytes, client, on_each_driver, subscriber};
use phalanx_mqtt::{Delivery, Packet, Property, PropertyBuffer, Publish};
use phalanx_testkit::allocations::{self, CountingAllocator};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The number of allocator calls while `messages` messages, in bursts of `burst`, go to the subscribers.
fn calls(
    address: SocketAddr,
    (messages, burst): (usize, usize),
    subscribers: usize,
    properties: &[Property<'_>],
) -> u64 {
    let mut readers: Vec<_> =
        (0..subscribers).map(|n| subscriber(address, &format!("reader {n}"))).collect();
    let mut writer = client(address, "writer");
    let mut buffer = PropertyBuffer::new();
    properties.iter().for_each(|property| buffer.push(*property).unwrap());
    let publish = Publish {
        topic: "a/b/c",
        payload: b"a reading of some sensor, neither long nor short",
        delivery: Delivery::AtMostOnce,
        retain: false,
        duplicate: false,
        properties: buffer.get(),
    };
    // Subscribers receive the same bytes that the publisher sends.
    let said = bytes(&Packet::Publish(publish)).repeat(burst);
    let mut came = vec![0; said.len()];
    let mut pass = |messages: usize| {
        for _ in 0..messages / burst {
            writer.write_all(&said).unwrap();
            for reader in &mut readers {
                reader.read_exact(&mut came).unwrap();
                assert!(came == said, "another message");
            }
        }
    };
    // Warm up the pools.
    pass(messages);
    let fewest = allocations::fewest(|| pass(messages));
    println!("{fewest} calls of the allocator for {messages} messages by {burst} to {subscribers}");
    allocations::show(|| pass(2 * burst));
    fewest
}

/// A single test: allocations of a concurrent test would be counted too.
#[test]
fn forwarding_a_message_does_not_allocate() {
    let user = [Property::User("unit", "°C"), Property::User("place", "cellar")];
    // The broker's periodic work calls it too, more often for each message the busier the machine is.
    const PERIODIC: u64 = 50;
    on_each_driver(1, |address| {
        assert!(calls(address, (500, 1), 1, &[]) < PERIODIC, "one for one");
        assert!(calls(address, (500, 1), 5, &[]) < PERIODIC, "single messages to some subscribers");
        assert!(calls(address, (500, 1), 1, &user) < PERIODIC, "with properties");
        assert!(calls(address, (3000, 50), 1, &[]) < PERIODIC, "many at once");
    });
}
