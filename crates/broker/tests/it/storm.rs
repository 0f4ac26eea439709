//! Clients that connect and disconnect as fast as possible do not block connected clients.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::common::{bytes, client, on_each_driver, subscriber};
use phalanx_mqtt::{Delivery, Packet, Properties, Publish};

const THREADS: usize = 4;
const EACH: usize = 50;
/// Minimum number of messages, and of clients that connect meanwhile.
const MESSAGES: usize = 200;
const CLIENTS: usize = 1000;

/// Ends the storm when the test ends, even on a panic.
struct EndGuard<'a>(&'a AtomicBool);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn messages_arrive_during_a_connection_storm() {
    on_each_driver(1, |address| {
        let (is_over, connected) = (AtomicBool::new(false), AtomicUsize::new(0));
        let (mut reader, mut writer) = (subscriber(address, "reader"), client(address, "writer"));
        let publish = Publish {
            topic: "a/b/c",
            payload: b"x",
            delivery: Delivery::AtMostOnce,
            retain: false,
            duplicate: false,
            properties: Properties::NONE,
        };
        let message = bytes(&Packet::Publish(publish));
        let mut received = vec![0; message.len()];
        thread::scope(|scope| {
            let _over = EndGuard(&is_over);
            for thread in 0..THREADS {
                let (is_over, connected) = (&is_over, &connected);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let name = |n| format!("{thread} {n}");
                        let all: Vec<_> = (0..EACH).map(|n| client(address, &name(n))).collect();
                        connected.fetch_add(all.len(), Ordering::Relaxed);
                    }
                });
            }
            // Each message arrives before the next is sent, while other clients connect and disconnect.
            let (mut connected_count, mut sent) = (0, 0);
            while sent < MESSAGES || connected_count < CLIENTS {
                writer.write_all(&message).unwrap();
                reader
                    .read_exact(&mut received)
                    .expect("the message arrives before the storm is over");
                assert!(received == message, "message {sent}");
                sent += 1;
                connected_count = connected.load(Ordering::Relaxed);
            }
            println!("{connected_count} clients came while {sent} messages went");
        });
    });
}
