//! Connects a client to the broker and opens a session.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use phalanx_mqtt::{Connect, Packet, Properties, Property, Reason, Version};

use super::To;
use super::connection::{Connection, Event, ReceivedPacket};
use super::failure::{Failure, reason_text};
use super::wire::{self, Wire};

/// An accepted session.
pub(super) struct Accepted {
    pub(super) connection: Connection,
    /// Maximum number of QoS 1 and 2 messages in flight to the broker.
    pub(super) receive_maximum: usize,
}

/// The limits of waits for a broker.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    /// Limit of a wait for one answer.
    pub(super) answer: Duration,
    /// End of all waits.
    pub(super) deadline: Option<Instant>,
}

impl Limit {
    /// The end of a wait that begins now.
    pub(super) fn end(self) -> Instant {
        let end = Instant::now() + self.answer;
        self.deadline.map_or(end, |deadline| deadline.min(end))
    }
}

/// Connects. The limit applies to each address of the broker, the TLS handshake, and the wait for CONNACK.
pub(super) fn connect(to: &To, limit: Limit) -> Result<Accepted, Failure> {
    let password = password(to)?;
    // A token contains its user, so a password alone is allowed.
    let is_alone = password.is_some() && to.broker.user.is_none();
    let require_user =
        |reason: &str| Err(Failure::Usage(format!("{reason}: --broker mqtt://USER@HOST")));
    if is_alone && to.v311 {
        return require_user("a password requires a user name with MQTT 3.1.1");
    }
    let has_certificates = [&to.ca, &to.cert].iter().any(|path| path.is_some());
    if has_certificates && !to.broker.tls {
        let reason = "certificates require TLS: --broker mqtts://HOST";
        return Err(Failure::Usage(reason.into()));
    }
    let version = if to.v311 { Version::V3 } else { Version::V5 };
    match attempt(to, limit, version, password.as_deref())? {
        Some(accepted) => Ok(accepted),
        // The broker does not support MQTT 5.
        None if version == Version::V5 => {
            if is_alone {
                return require_user(
                    "the broker supports only MQTT 3.1.1, where a password requires a user name",
                );
            }
            let retried = attempt(to, limit, Version::V3, password.as_deref())?;
            retried.ok_or_else(|| {
                Failure::Broker(format!("{} supports neither MQTT 5 nor 3.1.1", to.broker))
            })
        }
        None => Err(Failure::Broker(format!("{} does not support MQTT 3.1.1", to.broker))),
    }
}

/// The password, if one is given.
fn password(to: &To) -> Result<Option<Vec<u8>>, Failure> {
    let Some(path) = &to.password_file else {
        let password = std::env::var_os("PHALANX_PASSWORD");
        return Ok(password.map(std::os::unix::ffi::OsStringExt::into_vec));
    };
    let read = std::fs::read(path);
    let bytes = read.map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(Some(line.strip_suffix(b"\r").unwrap_or(line).to_vec()))
}

/// Sends CONNECT in one version; `None` if the broker does not support that version.
fn attempt(
    to: &To,
    limit: Limit,
    version: Version,
    password: Option<&[u8]>,
) -> Result<Option<Accepted>, Failure> {
    let stream = connect_tcp(to, limit)?;
    let wire = match to.broker.tls {
        false => Wire::Plain(stream),
        true => Wire::handshake(stream, &to.broker.host, wire::config(to)?, limit.end())
            .map_err(|error| Failure::from_io(&format!("no TLS with {}", to.broker), &error))?,
    };
    let connection = Connection::new(wire, version, to.keep_alive);
    let mut connection =
        connection.map_err(|error| Failure::from_io("cannot use a socket", &error))?;
    connection.send(&Packet::Connect(Connect {
        version,
        client_id: to.client_id.as_deref().unwrap_or_default(),
        clean_start: true,
        keep_alive: to.keep_alive,
        username: to.broker.user.as_deref(),
        password,
        will: None,
        properties: Properties::NONE,
    }))?;
    let end = limit.end();
    let received = loop {
        match connection.next(Some(end), None)? {
            Event::Packet(received) => break received,
            Event::Sent => (),
            _ => return Err(Failure::Timeout(format!("{} does not answer", to.broker))),
        }
    };
    if is_other_version(&received) {
        return Ok(None);
    }
    match received.packet()? {
        Packet::ConnAck(ack) if ack.reason == Reason::SUCCESS => {
            let mut receive_maximum = usize::from(u16::MAX);
            for property in ack.properties {
                match property {
                    Property::ReceiveMaximum(max) => receive_maximum = max.into(),
                    Property::ServerKeepAlive(seconds) => connection.set_keep_alive(seconds),
                    _ => (),
                }
            }
            Ok(Some(Accepted { connection, receive_maximum }))
        }
        Packet::ConnAck(ack) if ack.reason == Reason::UNSUPPORTED_PROTOCOL_VERSION => Ok(None),
        Packet::ConnAck(ack) => {
            let reason = reason_text(ack.reason, ack.properties);
            Err(Failure::Broker(format!("{} refuses: {reason}", to.broker)))
        }
        _ => Err(Failure::Broker(format!("{} does not respond like an MQTT broker", to.broker))),
    }
}

/// Whether a broker of version 3.1.1 rejected MQTT 5 in its own format.
fn is_other_version(received: &ReceivedPacket) -> bool {
    matches!(received.bytes(), [0x20, 2, _, 1])
}

/// Connects to the first reachable address of the broker.
fn connect_tcp(to: &To, limit: Limit) -> Result<TcpStream, Failure> {
    let broker = &to.broker;
    let addresses = (broker.host.as_str(), broker.port).to_socket_addrs();
    let addresses: Vec<SocketAddr> = addresses
        .map_err(|error| Failure::Broker(format!("cannot resolve {}: {error}", broker.host)))?
        .collect();
    let mut reason = io::Error::other("no address");
    for address in addresses {
        let remaining = limit.end().saturating_duration_since(Instant::now());
        let result = match remaining.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => TcpStream::connect_timeout(&address, remaining),
        };
        match result {
            Ok(stream) => return Ok(stream),
            Err(error) => reason = error,
        }
    }
    let text = format!("cannot reach {broker}: {reason}\n  check that a broker is running there");
    Err(match reason.kind() {
        io::ErrorKind::TimedOut => Failure::Timeout(text),
        _ => Failure::Broker(text),
    })
}
