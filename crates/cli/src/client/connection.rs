//! A connection to a broker that waits for packets, input, signals and timeouts.

use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use phalanx_mqtt::{Disconnect, Error, Frame, Packet, Reason, Version};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::failure::{Failure, reason_text};
use super::signals::Signals;
use super::wire::Wire;

/// Timeout for answers of the broker.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Interval without keep-alive: a day, short enough to be added to any instant.
const NO_KEEP_ALIVE: Duration = Duration::from_secs(24 * 60 * 60);

/// An event.
pub(super) enum Event {
    /// A packet arrived.
    Packet(ReceivedPacket),
    /// Queued data was sent; not necessarily all.
    Sent,
    /// The input is readable.
    Input,
    /// The deadline has passed.
    Timeout,
}

/// A received packet.
pub(super) struct ReceivedPacket {
    bytes: Vec<u8>,
    version: Version,
}

impl ReceivedPacket {
    /// # Errors
    /// When the bytes are not a valid packet.
    pub(super) fn packet(&self) -> Result<Packet<'_>, Failure> {
        let frame = Frame::split(&self.bytes, Frame::MAX_PACKET).map_err(invalid_mqtt)?;
        Packet::decode(frame.expect("the frame is complete"), self.version).map_err(invalid_mqtt)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

fn invalid_mqtt(error: Error) -> Failure {
    Failure::Broker(format!("the broker sent invalid MQTT: {error}"))
}

/// A connection.
pub(super) struct Connection {
    wire: Wire,
    signals: Signals,
    pub(super) version: Version,
    /// `None` without keep-alive.
    keep_alive: Option<Duration>,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Whether sent data was lost.
    send_failed: bool,
    /// Whether the broker closed its end.
    closed: bool,
    /// Time of the last sent packet, and of an unanswered ping.
    last_sent: Instant,
    ping_sent: Option<Instant>,
}

impl Connection {
    /// Creates the connection. From here on signals end only [`next`](Self::next) and [`print`](Self::print).
    pub(super) fn new(wire: Wire, version: Version, keep_alive: u16) -> io::Result<Self> {
        wire.set_nonblocking()?;
        let mut connection = Self {
            wire,
            signals: Signals::install()?,
            version,
            keep_alive: None,
            input: Vec::new(),
            output: Vec::new(),
            send_failed: false,
            closed: false,
            last_sent: Instant::now(),
            ping_sent: None,
        };
        connection.set_keep_alive(keep_alive);
        Ok(connection)
    }

    /// Sets the keep-alive interval in seconds; 0 disables pings.
    pub(super) fn set_keep_alive(&mut self, seconds: u16) {
        self.keep_alive = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
    }

    /// Queues a packet and sends as much as possible.
    ///
    /// # Errors
    /// When the packet is too long, or the connection is lost.
    pub(super) fn send(&mut self, packet: &Packet<'_>) -> Result<(), Failure> {
        let encoded = packet.encode(self.version, &mut self.output);
        encoded.map_err(|error| Failure::Usage(error.message().to_owned()))?;
        self.flush();
        Ok(())
    }

    /// Writes to stdout.
    ///
    /// # Errors
    /// After a signal, and if stdout is closed or fails.
    pub(super) fn print(&self, bytes: &[u8]) -> Result<(), Failure> {
        self.signals.print(bytes)
    }

    /// Whether all queued data was sent.
    pub(super) fn is_flushed(&self) -> bool {
        self.output.is_empty() && !self.wire.has_unsent()
    }

    /// Sends as much queued data as the socket takes. Returns whether it took any.
    fn flush(&mut self) -> bool {
        let mut has_sent = self.wire.send_buffered();
        let mut sent = 0;
        while sent < self.output.len() {
            match self.wire.write(&self.output[sent..]) {
                Ok(0) => break,
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                // Not an error yet: the broker may have sent a reason, which must be read first.
                Err(_) => {
                    self.send_failed = true;
                    self.output.clear();
                    return true;
                }
            }
        }
        self.output.drain(..sent);
        has_sent |= self.wire.send_buffered() | (sent > 0);
        if has_sent {
            self.last_sent = Instant::now();
        }
        has_sent
    }

    /// Waits for the next event until `deadline`, including events of `input` if given.
    pub(super) fn next(
        &mut self,
        deadline: Option<Instant>,
        input: Option<BorrowedFd<'_>>,
    ) -> Result<Event, Failure> {
        loop {
            let frame = Frame::split(&self.input, Frame::MAX_PACKET).map_err(invalid_mqtt)?;
            if let Some(length) = frame.map(|frame| frame.length()) {
                let bytes = self.input.drain(..length).collect();
                let received = ReceivedPacket { bytes, version: self.version };
                match received.packet() {
                    Ok(Packet::PingResp) => self.ping_sent = None,
                    Ok(Packet::Disconnect(Disconnect { reason, properties })) => {
                        let text = reason_text(reason, properties);
                        return Err(Failure::Broker(format!("the broker disconnected: {text}")));
                    }
                    _ => return Ok(Event::Packet(received)),
                }
                continue;
            }
            // Packets received before the end of the stream come first, since they may state the reason.
            if self.closed {
                return Err(Failure::Broker("the broker closed the connection".into()));
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Ok(Event::Timeout);
            }
            let next_ping = self.ping_if_due(now)?;
            let is_silent = self.ping_sent.is_some() && next_ping <= now;
            let wait = deadline.map_or(next_ping, |deadline| deadline.min(next_ping));
            let timeout = Timespec::try_from(wait.saturating_duration_since(now)).ok();
            let mut sockets = PollFlags::IN;
            if !self.is_flushed() {
                sockets |= PollFlags::OUT;
            }
            let mut fds = vec![self.signals.poll_fd(), PollFd::new(&self.wire, sockets)];
            fds.extend(input.map(|input| PollFd::from_borrowed_fd(input, PollFlags::IN)));
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) => (),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(Failure::from_io("cannot wait", &error.into())),
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            if ready[0] {
                return Err(Failure::Interrupted);
            }
            if ready[1] {
                let has_sent = !self.is_flushed() && self.flush();
                self.receive()?;
                if has_sent {
                    return Ok(Event::Sent);
                }
            } else if is_silent {
                return Err(Failure::Timeout("the broker does not answer a ping".into()));
            }
            if ready.get(2) == Some(&true) {
                return Ok(Event::Input);
            }
        }
    }

    /// Sends a ping if it is due, and returns the time of the next one, or the end of the wait for an answer.
    fn ping_if_due(&mut self, now: Instant) -> Result<Instant, Failure> {
        if let Some(ping_sent) = self.ping_sent {
            return Ok(ping_sent + TIMEOUT);
        }
        // Ping early, to allow for network delay.
        let due =
            self.last_sent + self.keep_alive.map_or(NO_KEEP_ALIVE, |interval| interval * 3 / 4);
        if due > now {
            return Ok(due);
        }
        self.ping_sent = Some(now);
        self.last_sent = now;
        self.send(&Packet::PingReq)?;
        Ok(now + TIMEOUT)
    }

    fn receive(&mut self) -> Result<(), Failure> {
        let mut chunk = [0; 64 * 1024];
        loop {
            match self.wire.read(&mut chunk) {
                Ok(0) => {
                    self.closed = true;
                    return Ok(());
                }
                Ok(count) => {
                    self.input.extend_from_slice(&chunk[..count]);
                    // The answer to a ping may follow many messages whose output takes long.
                    self.ping_sent = self.ping_sent.map(|_| Instant::now());
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => return Ok(()),
                    _ => return Err(Failure::from_io("the connection is lost", &error)),
                },
            }
            if !self.wire.has_unread() {
                return Ok(());
            }
        }
    }

    /// Disconnects after all queued data was delivered.
    ///
    /// # Errors
    /// When the delivery is uncertain: the broker closed the connection or did not respond.
    pub(super) fn disconnect(mut self) -> Result<(), Failure> {
        self.send(&Packet::Disconnect(Disconnect::new(Reason::SUCCESS)))?;
        let mut deadline = Instant::now() + TIMEOUT;
        // The broker closes the connection after reading DISCONNECT. Packets received until then are ignored.
        loop {
            let all_sent = self.is_flushed() && !self.send_failed;
            if all_sent {
                self.wire.finish();
            }
            match self.next(Some(deadline), None) {
                Ok(Event::Packet(_)) => (),
                Ok(Event::Sent) => deadline = Instant::now() + TIMEOUT,
                // The broker has read everything.
                Ok(_) if all_sent => return Ok(()),
                Err(_) if self.closed && all_sent => return Ok(()),
                Ok(_) => {
                    return Err(Failure::Timeout("the broker does not read the sent data".into()));
                }
                Err(failure) => return Err(failure),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    use phalanx_mqtt::{ConnAck, Delivery, Properties, Publish};
    use rustls::crypto::ring;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ClientConfig, RootCertStore, ServerConfig, ServerConnection};

    use super::*;

    /// A server that sends its reason and closes in one write, like Mosquitto.
    fn reject_connect(listener: &TcpListener, config: Arc<ServerConfig>) {
        let (mut socket, _) = listener.accept().unwrap();
        let mut session = ServerConnection::new(config).unwrap();
        while session.is_handshaking() {
            session.complete_io(&mut socket).unwrap();
        }
        let response = ConnAck {
            session_present: false,
            reason: Reason::BAD_USER_NAME_OR_PASSWORD,
            properties: Properties::NONE,
        };
        let mut packet = Vec::new();
        Packet::ConnAck(response).encode(Version::V5, &mut packet).unwrap();
        session.writer().write_all(&packet).unwrap();
        session.send_close_notify();
        let mut piece = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut piece).unwrap();
        }
        socket.write_all(&piece).unwrap();
        // Wait until the client closes.
        let _ = socket.read_to_end(&mut Vec::new());
    }

    fn connected() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let connection = Connection::new(Wire::Plain(stream), Version::V5, 1).unwrap();
        (connection, listener.accept().unwrap().0)
    }

    #[test]
    fn each_progress_of_a_transfer_is_an_event() {
        let (mut connection, mut broker) = connected();
        // More than the buffers of both sockets.
        let payload = vec![0; 64 << 20];
        connection
            .send(&Packet::Publish(Publish {
                topic: "t",
                payload: &payload,
                delivery: Delivery::AtMostOnce,
                retain: false,
                duplicate: false,
                properties: Properties::NONE,
            }))
            .unwrap();
        assert!(!connection.is_flushed());
        let read = std::thread::spawn(move || io::copy(&mut broker, &mut io::sink()).unwrap());
        while !connection.is_flushed() {
            let event = connection.next(Some(Instant::now() + TIMEOUT), None);
            assert!(matches!(event, Ok(Event::Sent)));
        }
        drop(connection);
        assert!(read.join().unwrap() > payload.len() as u64);
    }

    #[test]
    fn an_answer_that_has_arrived_counts_however_late_it_is_read() {
        let (mut connection, mut broker) = connected();
        let Some(long_ago) = Instant::now().checked_sub(2 * TIMEOUT) else { return };
        connection.ping_sent = Some(long_ago);
        Packet::PingResp.encode(Version::V5, &mut connection.output).unwrap();
        let answer = std::mem::take(&mut connection.output);
        broker.write_all(&answer).unwrap();
        poll(&mut [PollFd::new(&connection.wire, PollFlags::IN)], None).unwrap();
        let short_deadline = || Some(Instant::now() + Duration::from_millis(10));
        assert!(matches!(connection.next(short_deadline(), None), Ok(Event::Timeout)));
        assert_eq!(connection.ping_sent, None);
        connection.ping_sent = Some(long_ago);
        assert!(matches!(connection.next(short_deadline(), None), Err(Failure::Timeout(_))));
    }

    #[test]
    fn packets_before_the_close_are_received() {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        let provider = || Arc::new(ring::default_provider());
        let server = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let client = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| reject_connect(&listener, Arc::new(server)));
            let wire =
                Wire::handshake(stream, "localhost", Arc::new(client), Instant::now() + TIMEOUT);
            let mut connection = Connection::new(wire.unwrap(), Version::V5, 0).unwrap();
            let deadline = Some(Instant::now() + TIMEOUT);
            // Everything has arrived before the client reads.
            std::thread::sleep(Duration::from_millis(100));
            let Ok(Event::Packet(received)) = connection.next(deadline, None) else {
                panic!("no packet")
            };
            let packet = received.packet().unwrap_or_else(|_| panic!("no packet"));
            let Packet::ConnAck(ack) = packet else { panic!("no CONNACK") };
            assert_eq!(ack.reason, Reason::BAD_USER_NAME_OR_PASSWORD);
            // Then the end of the stream, not a timeout.
            assert!(matches!(connection.next(deadline, None), Err(Failure::Broker(_))));
        });
    }
}
