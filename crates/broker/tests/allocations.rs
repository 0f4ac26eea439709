//! How often the broker calls the general allocator for a message of QoS 0, once some have gone the same way before.
//!
//! The clients of this test say the same bytes again and again, and call none. Calls are counted in the whole process,
//! the broker's threads included; with `PHALANX_ALLOCATIONS=1` it is shown where they come from.

mod common;
#[path = "../../web/tests/common/counted.rs"]
mod counted;

use std::io::{Read, Write};
use std::net::SocketAddr;

use common::{bytes, client, on_each_driver, subscriber};
use phalanx_mqtt::{Delivery, Packet, Property, PropertyBuffer, Publish};

/// Calls of the allocator while so many messages, `burst` of them at once, go to so many subscribers.
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
    // Subscribers get the bytes that the publisher has sent.
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
    // Pools grow.
    pass(messages);
    let fewest = counted::fewest(|| pass(messages));
    println!("{fewest} calls of the allocator for {messages} messages by {burst} to {subscribers}");
    counted::show(|| pass(2 * burst));
    fewest
}

/// All in one test: what another one does meanwhile would be counted, too.
#[test]
fn a_message_that_is_passed_on_calls_no_allocator() {
    let user = [Property::User("unit", "°C"), Property::User("place", "cellar")];
    on_each_driver(1, |address| {
        assert!(calls(address, (500, 1), 1, &[]) < 10, "one for one");
        assert!(calls(address, (500, 1), 5, &[]) < 10, "one for some");
        assert!(calls(address, (500, 1), 1, &user) < 10, "with properties");
        assert!(calls(address, (3000, 50), 1, &[]) < 60, "many at once");
    });
}
