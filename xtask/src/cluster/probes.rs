//! Checks by clients that connect for them: messages pass, clients connect once, nodes agree on retained messages.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use phalanx_mqtt::{Ack, Delivery, Packet, PacketId, Properties, Publish, QoS};

use super::nodes::Node;
use super::wire::Wire;

/// Wait for one message, after which it is published again.
const WAIT: Duration = Duration::from_millis(200);

/// A name that no earlier probe had.
fn unique_name(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{prefix}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn timed_out(message: &str) -> io::Error {
    io::Error::new(ErrorKind::TimedOut, format!("no {message}"))
}

/// Waits for a packet that is wanted.
fn wait_for<T>(
    wire: &mut Wire,
    message: &str,
    limit: Duration,
    matches: impl Fn(&Packet<'_>) -> Option<T>,
) -> io::Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        let remaining = deadline.saturating_duration_since(Instant::now());
        let received = wire.next(remaining)?.ok_or_else(|| timed_out(message))?;
        if let Some(found) = matches(&received.packet()?) {
            return Ok(found);
        }
    }
}

fn publish(wire: &mut Wire, topic: &str, limit: Duration) -> io::Result<()> {
    wire.send(&Packet::Publish(Publish {
        topic,
        payload: b"probe",
        delivery: Delivery::AtLeastOnce(PacketId::MIN),
        retain: false,
        duplicate: false,
        properties: Properties::NONE,
    }))?;
    wait_for(wire, "PUBACK", limit, |packet| matches!(packet, Packet::PubAck(_)).then_some(()))
}

fn subscribed(at: &Node, topic: &str, limit: Duration) -> io::Result<Wire> {
    let mut wire = Wire::connect(at.address, &unique_name("prober"), false)?;
    wire.subscribe(topic, QoS::AtLeastOnce)?;
    wait_for(&mut wire, "SUBACK", limit, |packet| {
        matches!(packet, Packet::SubAck(_)).then_some(())
    })?;
    Ok(wire)
}

fn is_message(packet: &Packet<'_>) -> Option<()> {
    matches!(packet, Packet::Publish(_)).then_some(())
}

/// A new subscriber at one node gets what is published at another one, after several attempts.
pub(super) fn passes(from: &Node, to: &Node, limit: Duration) -> io::Result<()> {
    let (deadline, topic) = (Instant::now() + limit, unique_name("probe"));
    let mut last = timed_out("message");
    // A node that has just started refuses connections.
    while Instant::now() < deadline {
        let attempt = || {
            let mut subscriber = subscribed(to, &topic, limit)?;
            let mut publisher = Wire::connect(from.address, &unique_name("prober"), false)?;
            while Instant::now() < deadline {
                publish(&mut publisher, &topic, limit)?;
                match wait_for(&mut subscriber, "message", WAIT, is_message) {
                    Err(error) if error.kind() == ErrorKind::TimedOut => (),
                    result => return result,
                }
            }
            Err(timed_out("message"))
        };
        match attempt() {
            Ok(()) => return Ok(()),
            Err(error) => last = error,
        }
        thread::sleep(Duration::from_millis(20));
    }
    Err(last)
}

/// A new subscriber at one node gets the first message that is published at another one after its SUBACK.
pub(super) fn passes_at_once(from: &Node, to: &Node, limit: Duration) -> io::Result<()> {
    let topic = unique_name("once");
    let mut publisher = Wire::connect(from.address, &unique_name("prober"), false)?;
    let mut subscriber = subscribed(to, &topic, limit)?;
    publish(&mut publisher, &topic, limit)?;
    wait_for(&mut subscriber, "message", limit, is_message)
}

/// A client that connects to one node and then to another one is disconnected at the first. Returns the time that this
/// took. `between` runs before the second connection.
pub(super) fn moves(
    from: &Node,
    to: &Node,
    limit: Duration,
    between: impl FnOnce() -> io::Result<()>,
) -> io::Result<Duration> {
    let client = unique_name("roaming");
    let mut first = Wire::connect(from.address, &client, false)?;
    between()?;
    let start = Instant::now();
    let _second = Wire::connect(to.address, &client, false)?;
    let result = wait_for(&mut first, "end of the earlier connection", limit, |packet| {
        matches!(packet, Packet::Disconnect(_)).then_some(())
    });
    match result {
        Err(error) if error.kind() == ErrorKind::TimedOut => Err(error),
        _ => Ok(start.elapsed()),
    }
}

/// The retained messages of a node below `kept`, as numbers by topic.
pub(super) fn retained(at: &Node, max: usize) -> io::Result<BTreeMap<String, u64>> {
    let mut wire = Wire::connect(at.address, &unique_name("reader"), false)?;
    wire.subscribe("kept/#", QoS::AtLeastOnce)?;
    let mut found = BTreeMap::new();
    while found.len() < max {
        let Some(received) = wire.next(Duration::from_secs(2))? else { break };
        if let Packet::Publish(message) = received.packet()? {
            let number =
                std::str::from_utf8(message.payload).ok().and_then(|text| text.parse().ok());
            found.insert(message.topic.to_owned(), number.unwrap_or_default());
            if let Some(id) = message.delivery.id() {
                wire.send(&Packet::PubAck(Ack::success(id)))?;
            }
        }
    }
    Ok(found)
}
