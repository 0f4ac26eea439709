//! A broker in the test's process, on each driver in turn, and clients that read and write packets directly. Shared by
//! the test suites in this folder.

#![allow(dead_code, reason = "each suite uses a part of it")]

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use phalanx::runtime::{Control, DriverChoice};
use phalanx_broker::{Config, Scheme, Serving, serve};
use phalanx_mqtt::{Packet, QoS, Version};
use phalanx_testkit::driver::is_selected;
use phalanx_testkit::{TIMEOUT, mqtt};

/// Runs `test` with a broker in this process, on each driver in turn.
pub(crate) fn on_each_driver(processors: usize, test: impl Fn(SocketAddr)) {
    for driver in [DriverChoice::Uring, DriverChoice::Poll] {
        let mut started = None;
        let start = || start(driver, processors).map(|broker| started = Some(broker));
        if !is_selected(&driver.to_string(), start) {
            continue;
        }
        let (address, control, thread) = started.expect("it is tested");
        test(address);
        control.drain();
        thread.join().unwrap().unwrap();
    }
}

/// The address of a broker, its control, and its thread's result.
type Started = (SocketAddr, Control, JoinHandle<Result<(), String>>);

/// Starts a broker on a thread.
fn start(driver: DriverChoice, processors: usize) -> Result<Started, String> {
    let mut config = Config::new();
    config.listen = vec![Scheme::Mqtt.at((Ipv4Addr::LOCALHOST, 0))];
    // No `$SYS` messages, because they would change the counts.
    config.system_interval = Duration::ZERO;
    let runtime = &mut config.runtime;
    (runtime.driver, runtime.signals) = (driver, false);
    runtime.workers = processors;
    let (up, is_up) = channel();
    let thread = thread::spawn(move || {
        let ready = |serving: &Serving<'_>| {
            up.send((serving.addresses[0], serving.up.control.clone())).unwrap();
        };
        serve(config, ready).map(drop).map_err(|error| error.to_string())
    });
    match is_up.recv_timeout(TIMEOUT) {
        Ok((address, control)) => Ok((address, control, thread)),
        Err(_) => Err(thread.join().unwrap().unwrap_err()),
    }
}

/// The bytes of a packet of MQTT 5.
pub(crate) fn bytes(packet: &Packet<'_>) -> Vec<u8> {
    mqtt::encode(packet, Version::V5)
}

/// The socket of a connected client.
pub(crate) fn client(address: SocketAddr, name: &str) -> TcpStream {
    mqtt::Client::new(address, name).into_stream()
}

/// The socket of a subscriber to `a/+/c`.
pub(crate) fn subscriber(address: SocketAddr, name: &str) -> TcpStream {
    let mut client = mqtt::Client::new(address, name);
    client.subscribe("a/+/c", QoS::AtMostOnce);
    client.into_stream()
}
