//! Counts the calls of the general allocator per QoS 0 message, after a warm-up.
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

/// The number of allocator calls while `messages` messages are sent to the subscribers, in bursts of `burst`.
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
    let sent = bytes(&Packet::Publish(publish)).repeat(burst);
    let mut received = vec![0; sent.len()];
    let mut pass = |messages: usize| {
        for _ in 0..messages / burst {
            writer.write_all(&sent).unwrap();
            for reader in &mut readers {
                reader.read_exact(&mut received).unwrap();
                assert!(received == sent, "another message");
            }
        }
    };
    // Warm up the pools.
    pass(messages);
    let fewest = allocations::min_calls(|| pass(messages));
    println!("{fewest} calls of the allocator for {messages} messages by {burst} to {subscribers}");
    allocations::print_origins(|| pass(2 * burst));
    fewest
}

/// The only test, because allocations of a concurrent one would be counted, too.
#[test]
fn forwarding_a_message_does_not_allocate() {
    let user = [Property::User("unit", "°C"), Property::User("place", "cellar")];
    on_each_driver(1, |address| {
        // The broker's periodic work also allocates. The busier the machine is, the more calls there are per message.
        let are_few = |(messages, burst), subscribers, properties: &[_]| {
            calls(address, (messages, burst), subscribers, properties) * 50 <= messages as u64
        };
        assert!(are_few((1000, 1), 1, &[]), "one for one");
        assert!(are_few((1000, 1), 5, &[]), "single messages to some subscribers");
        assert!(are_few((1000, 1), 1, &user), "with properties");
        assert!(are_few((5000, 50), 1, &[]), "many at once");
    });
}
