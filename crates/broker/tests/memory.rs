//! After a peak, memory is freed and returned to the system. Measured by the allocator's live bytes and by the resident
//! set.

#![cfg(target_os = "linux")]

#[path = "it/common.rs"]
mod common;

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use common::on_each_driver;
use phalanx_mqtt::{QoS, Version};
use phalanx_testkit::allocations::{CountingAllocator, live_bytes};
use phalanx_testkit::mqtt::{Client, ConnectOptions};
use phalanx_testkit::{TIMEOUT, eventually};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const SESSIONS: usize = 8;
const QUEUED: usize = 800;
const RETAINED: usize = 1000;
const CONNECTIONS: usize = 200;

/// Maximum memory of pools and tables that are kept, mainly 2,048 messages of up to 1 KiB.
const MAX_POOL_BYTES: u64 = 6 << 20;

/// A payload of 1 to 10 kB.
fn payload(number: usize) -> String {
    "x".repeat(1000 + number * 7919 % 9000)
}

/// Fills queues, retained messages and connections, calls `at_peak`, and removes everything.
fn peak(address: SocketAddr, scale: usize, at_peak: impl FnOnce()) {
    let sessions: Vec<_> = (0..SESSIONS).map(|n| format!("session {n}")).collect();
    for (n, name) in sessions.iter().enumerate() {
        let (mut client, _) = Client::connect_with(address, &ConnectOptions::persistent(name));
        client.subscribe(&format!("queue/{n}"), QoS::AtLeastOnce);
        client.disconnect();
    }
    let mut publisher = Client::new(address, "publisher");
    for n in 0..SESSIONS * QUEUED / scale {
        publisher.publish(&format!("queue/{}", n % SESSIONS), &payload(n));
    }
    (0..RETAINED / scale).for_each(|n| publisher.retain(&format!("kept/{n}"), &payload(n)));
    let name = |n| format!("client {n}");
    let crowd: Vec<_> = (0..CONNECTIONS).map(|n| Client::new(address, &name(n))).collect();
    at_peak();
    drop(crowd);
    (0..RETAINED / scale).for_each(|n| publisher.retain(&format!("kept/{n}"), ""));
    for name in &sessions {
        let (mut client, _) = Client::connect_with(address, &ConnectOptions::persistent(name));
        for _ in 0..QUEUED / scale {
            let message = client.next();
            client.acknowledge(&message.message());
        }
        client.disconnect();
        // This connection replaces the session with one that ends with it.
        Client::connect_with(address, &ConnectOptions::new(Version::V5, name)).0.disconnect();
    }
    publisher.disconnect();
}

/// The resident memory of the process, in bytes.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// The only test, because allocations of a concurrent one would be counted, too.
#[test]
fn the_memory_of_a_peak_is_freed_and_returned() {
    on_each_driver(2, |address| {
        // The first peak fills the pools.
        peak(address, 10, || ());
        let (live, before) = (live_bytes(), resident());
        let (mut of_peak, mut resident_then) = (0, 0);
        peak(address, 1, || {
            // The broker samples its memory every second.
            thread::sleep(Duration::from_secs(2));
            (of_peak, resident_then) = (live_bytes(), resident());
        });
        println!("{live} bytes, {of_peak} at the peak");
        assert!(of_peak > live + (30 << 20), "{of_peak} of {live} bytes");
        eventually("the memory is freed", || (live_bytes() < live + MAX_POOL_BYTES).then_some(()));
        if cfg!(target_env = "gnu") {
            // At most a third of the peak may remain. The broker checks every ten seconds whether a peak is over.
            let most = before + (resident_then - before) / 3;
            let begun = Instant::now();
            while resident() >= most {
                assert!(begun.elapsed() < 3 * TIMEOUT, "the memory is not returned");
                thread::sleep(Duration::from_millis(50));
            }
        }
    });
}
