//! A connection to a broker that waits for several things at once: packets, input, signals, and the time.

use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use phalanx_mqtt::{Disconnect, Error, Frame, Packet, Reason, Version};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::failure::{Failure, words};
use super::wire::Wire;

/// A broker that says nothing is waited for no longer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long nothing is said where there is no need to: a day, for what can be added to a moment.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

/// What a client waits for.
pub(super) enum Happened {
    /// A packet.
    Came(Came),
    /// There is something to read where else it looked.
    Input,
    /// The time is up.
    Late,
}

/// A packet that has come.
pub(super) struct Came {
    bytes: Vec<u8>,
    version: Version,
}

impl Came {
    /// # Errors
    /// When it is none, as the standard has it.
    pub(super) fn packet(&self) -> Result<Packet<'_>, Failure> {
        let frame = Frame::split(&self.bytes, Frame::MAX_BODY).map_err(wrong)?;
        Packet::decode(frame.expect("it was found whole"), self.version).map_err(wrong)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

fn wrong(error: Error) -> Failure {
    Failure::Broker(format!("what the broker says is no MQTT: {error}"))
}

/// Signals that ask for an end, as bytes to read.
struct Signals(UnixStream);

impl Signals {
    fn heed() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        signal_hook::low_level::pipe::register(SIGTERM, write.try_clone()?)?;
        signal_hook::low_level::pipe::register(SIGINT, write)?;
        Ok(Self(read))
    }
}

/// A connection.
pub(super) struct Link {
    wire: Wire,
    signals: Signals,
    pub(super) version: Version,
    /// None where nobody looks.
    keep_alive: Option<Duration>,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Something that was said has not left, and never will.
    lost: bool,
    /// The broker has closed its end.
    closed: bool,
    /// When something was last sent, and since when an answer to a ping is waited for.
    said: Instant,
    pinged: Option<Instant>,
}

impl Link {
    /// From here on signals are noticed by [`next`](Self::next) alone.
    pub(super) fn new(wire: Wire, version: Version, keep_alive: u16) -> io::Result<Self> {
        wire.unblock()?;
        let mut link = Self {
            wire,
            signals: Signals::heed()?,
            version,
            keep_alive: None,
            input: Vec::new(),
            output: Vec::new(),
            lost: false,
            closed: false,
            said: Instant::now(),
            pinged: None,
        };
        link.keeps_alive(keep_alive);
        Ok(link)
    }

    /// After so many seconds of silence the broker is asked whether it is there; never for zero.
    pub(super) fn keeps_alive(&mut self, seconds: u16) {
        self.keep_alive = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
    }

    /// Says a packet, as soon as it goes.
    ///
    /// # Errors
    /// When it is longer than a packet can be, or the broker is gone.
    pub(super) fn say(&mut self, packet: &Packet<'_>) -> Result<(), Failure> {
        let encoded = packet.encode(self.version, &mut self.output);
        encoded.map_err(|error| Failure::Usage(error.what().to_owned()))?;
        self.flush()
    }

    /// Whether all that was said has left.
    pub(super) fn is_flushed(&self) -> bool {
        self.output.is_empty() && !self.wire.holds_back()
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let mut sent = 0;
        while sent < self.output.len() {
            match self.wire.write(&self.output[sent..]) {
                Ok(0) => break,
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                // It may have said why, which is still to be read.
                Err(_) => {
                    self.lost = true;
                    self.output.clear();
                    return Ok(());
                }
            }
            self.said = Instant::now();
        }
        self.output.drain(..sent);
        if self.wire.holds_back() {
            // What goes, goes; the rest when the socket says so.
            let _ = self.wire.flush();
        }
        Ok(())
    }

    /// Waits until something happens, `until` then at most, and with `input` for that, too.
    pub(super) fn next(
        &mut self,
        until: Option<Instant>,
        input: Option<BorrowedFd<'_>>,
    ) -> Result<Happened, Failure> {
        loop {
            let frame = Frame::split(&self.input, Frame::MAX_BODY).map_err(wrong)?;
            if let Some(length) = frame.map(|frame| frame.length()) {
                let bytes = self.input.drain(..length).collect();
                let came = Came { bytes, version: self.version };
                match came.packet() {
                    Ok(Packet::PingResp) => self.pinged = None,
                    Ok(Packet::Disconnect(Disconnect { reason, properties })) => {
                        let why = words(reason, properties);
                        return Err(Failure::Broker(format!("the broker has ended it: {why}")));
                    }
                    _ => return Ok(Happened::Came(came)),
                }
                continue;
            }
            // Not before what came in front of that, which may say why.
            if self.closed {
                return Err(Failure::Broker("the broker has closed the connection".into()));
            }
            let now = Instant::now();
            if until.is_some_and(|until| until <= now) {
                return Ok(Happened::Late);
            }
            let next_ping = self.look_after(now)?;
            let wait = until.map_or(next_ping, |until| until.min(next_ping));
            let timeout = Timespec::try_from(wait.saturating_duration_since(now)).ok();
            let mut sockets = PollFlags::IN;
            if !self.is_flushed() {
                sockets |= PollFlags::OUT;
            }
            let mut fds =
                vec![PollFd::new(&self.signals.0, PollFlags::IN), PollFd::new(&self.wire, sockets)];
            fds.extend(input.map(|input| PollFd::from_borrowed_fd(input, PollFlags::IN)));
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => (),
                Err(error) => return Err(Failure::of_system("cannot wait", &error.into())),
            }
            let woken: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            if woken[0] {
                return Err(Failure::Interrupted);
            }
            if woken[1] {
                self.flush()?;
                self.receive()?;
            }
            if woken.get(2) == Some(&true) {
                return Ok(Happened::Input);
            }
        }
    }

    /// Says that it is still there when that is due; when it is due next.
    fn look_after(&mut self, now: Instant) -> Result<Instant, Failure> {
        if let Some(pinged) = self.pinged {
            let until = pinged + TIMEOUT;
            if until <= now {
                let why = "the broker is gone: it does not answer a ping";
                return Err(Failure::Broker(why.into()));
            }
            return Ok(until);
        }
        // A little early, as it is on its way for a moment.
        let due = self.said + self.keep_alive.map_or(NEVER, |silence| silence * 3 / 4);
        if due > now {
            return Ok(due);
        }
        self.pinged = Some(now);
        self.said = now;
        self.say(&Packet::PingReq)?;
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
                Ok(count) => self.input.extend_from_slice(&chunk[..count]),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => return Ok(()),
                    _ => return Err(Failure::of_system("the connection is lost", &error)),
                },
            }
            if !self.wire.has_more() {
                return Ok(());
            }
        }
    }

    /// Leaves. What was said before arrives.
    ///
    /// # Errors
    /// When it may not have: the broker has ended the connection, or was gone.
    pub(super) fn leave(mut self) -> Result<(), Failure> {
        let goodbye = Packet::Disconnect(Disconnect::because(Reason::SUCCESS));
        self.say(&goodbye)?;
        let until = Instant::now() + TIMEOUT;
        // The broker closes when it has read that. Whatever comes until then is not for us any more.
        loop {
            let left = self.is_flushed() && !self.lost;
            if left {
                self.wire.finish();
            }
            match self.next(Some(until), None) {
                Ok(Happened::Came(_)) => (),
                // It has read all that it wants to.
                Ok(_) if left => return Ok(()),
                Err(_) if self.closed && left => return Ok(()),
                Ok(_) => return Err(Failure::Late("the broker does not take what is sent".into())),
                Err(failure) => return Err(failure),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    use phalanx_mqtt::{ConnAck, Properties};
    use rustls::crypto::ring;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ClientConfig, RootCertStore, ServerConfig, ServerConnection};

    use super::*;

    /// A server that says why it refuses, and goodbye, in one piece: as Mosquitto does.
    fn refuses(listener: &TcpListener, config: Arc<ServerConfig>) {
        let (mut socket, _) = listener.accept().unwrap();
        let mut session = ServerConnection::new(config).unwrap();
        while session.is_handshaking() {
            session.complete_io(&mut socket).unwrap();
        }
        let refusal = ConnAck {
            session_present: false,
            reason: Reason::BAD_USER_NAME_OR_PASSWORD,
            properties: Properties::NONE,
        };
        let mut packet = Vec::new();
        Packet::ConnAck(refusal).encode(Version::V5, &mut packet).unwrap();
        session.writer().write_all(&packet).unwrap();
        session.send_close_notify();
        let mut piece = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut piece).unwrap();
        }
        socket.write_all(&piece).unwrap();
        // Until the client goes, too.
        let _ = socket.read_to_end(&mut Vec::new());
    }

    #[test]
    fn what_is_said_at_the_end_is_heard() {
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
            scope.spawn(|| refuses(&listener, Arc::new(server)));
            let wire = Wire::seal(stream, "localhost", Arc::new(client), TIMEOUT).unwrap();
            let mut link = Link::new(wire, Version::V5, 0).unwrap();
            let until = Some(Instant::now() + TIMEOUT);
            // All of it is there before the client looks.
            std::thread::sleep(Duration::from_millis(100));
            let Ok(Happened::Came(came)) = link.next(until, None) else { panic!("not heard") };
            let packet = came.packet().unwrap_or_else(|_| panic!("no packet"));
            let Packet::ConnAck(ack) = packet else { panic!("not why") };
            assert_eq!(ack.reason, Reason::BAD_USER_NAME_OR_PASSWORD);
            // Then the end, and not the end of patience.
            assert!(matches!(link.next(until, None), Err(Failure::Broker(_))));
        });
    }
}
