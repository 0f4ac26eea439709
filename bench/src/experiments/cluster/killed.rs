//! A node that is killed: the time until a client has its session at another node.

use std::io::{self, Write};
use std::iter::once;
use std::net::{SocketAddr, TcpStream};
use std::num::NonZero;
use std::time::{Duration, Instant};

use phalanx_mqtt::{
    Connect, Delivery, Packet, Properties, Property, PropertyBuffer, Publish, QoS, Reason, Version,
};

use super::Options;
use super::report::Row;
use super::servers::{Home, PAUSE, Servers, State};
use crate::error::Error;
use crate::experiments::broker::client::Client;
use crate::experiments::broker::packets::{Packets, encode, send, unexpected};
use crate::measure::stats::median;
use crate::system::interrupt::interrupted;

/// Time after which a session counts as lost. A node may hold a CONNECT back for some seconds.
const LIMIT: Duration = Duration::from_secs(120);
/// Messages that the publisher sends before they are acknowledged.
const WINDOW: usize = 256;
/// Bytes of a queued message.
const PAYLOAD: usize = 1024;
const MAX_PACKET_BYTES: usize = 64 * 1024;

/// The kept sessions of a node, whose clients are away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Killed {
    case: &'static str,
    sessions: usize,
    /// Messages in the queue of each session.
    queued: usize,
}

impl Killed {
    /// The cases. With one second for each 50 MB, the sizes have goals that differ by four seconds.
    pub(super) fn all(quick: bool) -> [Self; 2] {
        let own = |case, queued| match quick {
            true => Self { case, sessions: 3, queued: queued / 100 + 1 },
            false => Self { case, sessions: 100, queued },
        };
        [own("killed with 1 MB queued", 10), own("killed with 205 MB queued", 2000)]
    }

    /// Payload in the queues.
    fn bytes(self) -> usize {
        self.sessions * self.queued * PAYLOAD
    }

    /// Starts a cluster, fills the sessions of a node and kills it. Returns the time from then until a client has its
    /// session at another node, and the first message from its queue.
    pub(super) fn measure(self, options: &Options, home: Home<'_>) -> Result<Duration, Error> {
        eprintln!("{}", self.case);
        let directory = tempfile::Builder::new().prefix("killed-").tempdir_in(home.directory)?;
        let home = Home { directory: directory.path(), ..home };
        let mut servers = Servers::start(State::Kept, options, home)?;
        let failed = |error: io::Error| Error::Load {
            name: "the cluster".to_owned(),
            why: error.to_string(),
        };
        self.fill(servers.nodes[0].address).map_err(failed)?;
        let killed = servers.nodes.remove(0);
        let begun = Instant::now();
        drop(killed);
        // A client has the addresses of all nodes.
        for node in servers.nodes.iter().cycle() {
            interrupted()?;
            match self.resume(node.address) {
                Ok(()) => break,
                Err(error) if begun.elapsed() > LIMIT => return Err(failed(error)),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
        Ok(begun.elapsed())
    }

    /// Makes the sessions, and publishes the messages for them.
    fn fill(self, at: SocketAddr) -> io::Result<()> {
        for n in 0..self.sessions {
            // The connection ends, and the session stays.
            Client::start(at, &name(n), once(topic(n)), QoS::AtLeastOnce, true)?;
        }
        let mut publisher =
            Client::start(at, "filler", std::iter::empty(), QoS::AtMostOnce, false)?;
        publisher.stream.set_nonblocking(false)?;
        let mut packets = Packets::new(MAX_PACKET_BYTES);
        let (all, payload) = (self.sessions * self.queued, vec![b'.'; PAYLOAD]);
        let mut out = Vec::new();
        for first in (0..all).step_by(WINDOW) {
            let numbers = first..all.min(first + WINDOW);
            for number in numbers.clone() {
                let id = NonZero::new((number % WINDOW) as u16 + 1).expect("more than 0");
                let publish = Publish {
                    topic: &topic(number % self.sessions),
                    payload: &payload,
                    delivery: Delivery::AtLeastOnce(id),
                    retain: false,
                    duplicate: false,
                    properties: Properties::NONE,
                };
                encode(&Packet::Publish(publish), &mut out)?;
            }
            publisher.stream.write_all(&out)?;
            out.clear();
            for _ in numbers {
                packets.next(&publisher.stream, |packet| match packet {
                    Packet::PubAck(ack) if ack.reason == Reason::SUCCESS => Ok(()),
                    other => Err(unexpected(other)),
                })?;
            }
        }
        publisher.leave()
    }

    /// Connects the client of the last session, and waits for a message.
    fn resume(self, at: SocketAddr) -> io::Result<()> {
        let stream = TcpStream::connect(at)?;
        stream.set_read_timeout(Some(LIMIT))?;
        let mut properties = PropertyBuffer::new();
        properties.push(Property::SessionExpiry(u32::MAX)).map_err(io::Error::other)?;
        let connect = Connect {
            version: Version::V5,
            client_id: &name(self.sessions - 1),
            clean_start: false,
            keep_alive: 0,
            username: None,
            password: None,
            will: None,
            properties: properties.get(),
        };
        send(&stream, &Packet::Connect(connect))?;
        let mut packets = Packets::new(MAX_PACKET_BYTES);
        packets.next(&stream, |packet| match packet {
            Packet::ConnAck(ack) if ack.reason == Reason::SUCCESS && ack.session_present => Ok(()),
            other => Err(unexpected(other)),
        })?;
        packets.next(&stream, |packet| match packet {
            Packet::Publish(_) => Ok(()),
            other => Err(unexpected(other)),
        })
    }

    /// The row of its times.
    pub(super) fn row(self, times: &[Duration]) -> Row {
        let seconds: Vec<_> = times.iter().map(Duration::as_secs_f64).collect();
        let at_most = Some(8.0 + self.bytes() as f64 / 50e6);
        Row::of_time(self.case, (median(&seconds), "s"), at_most, times.len())
    }
}

fn name(n: usize) -> String {
    format!("sleeper-{n}")
}

fn topic(n: usize) -> String {
    format!("sleepers/{n}")
}
