//! An echo server and its clients.

use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::error::Error;
use crate::measure::stretch::Stretch;
use crate::system::cores::{Bound, Cores};
use crate::system::interrupt::interrupted;
use crate::system::process::{self, Process};
use crate::system::procfs::run_time;

/// Number of connections.
const CONNECTIONS: usize = 64;
/// Size of a message in bytes.
const LENGTH: usize = 64;
/// Messages per round.
pub(super) const MESSAGES: usize = 60_000;
/// Timeout of an echo.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// A running server.
pub(super) struct Server {
    name: &'static str,
    cores: Cores,
    process: Process,
}

impl Server {
    pub(super) fn start(
        name: &'static str,
        program: &Path,
        cores: Cores,
        directory: &Path,
    ) -> Result<Self, Error> {
        let mut command = Command::new(program);
        command.args(["echo", name]);
        let process =
            Process::start(name, command, None, &cores.server, directory, process::listens)?;
        Ok(Self { name, cores, process })
    }

    /// Microseconds of the server's processor time per message.
    pub(super) fn measure(&self, messages: usize) -> Result<f64, Error> {
        interrupted()?;
        let _bound = Bound::to(&self.cores.load)?;
        let mut clients = Clients::connect(&self.process)?;
        self.exchange(&mut clients, messages / 10)?;
        let before = run_time(&self.process.family)?;
        let stretch = Stretch::begin_of(&self.process.family);
        self.exchange(&mut clients, messages)?;
        stretch.end().of(format_args!("{}, echo", self.name), messages);
        let after = run_time(&self.process.family)?;
        Ok((after - before) * 1e6 / messages as f64)
    }

    fn exchange(&self, clients: &mut Clients, messages: usize) -> Result<(), Error> {
        clients.exchange(messages).map_err(|error| Error::load(self.name, error))
    }
}

/// Connections that each wait for their message before they send the next.
struct Clients {
    poll: Poll,
    streams: Vec<(TcpStream, usize)>,
}

impl Clients {
    fn connect(process: &Process) -> Result<Self, Error> {
        let poll = Poll::new()?;
        let connect = |n| {
            let stream = std::net::TcpStream::connect(process.address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(n), Interest::READABLE)?;
            Ok((stream, 0))
        };
        let streams = (0..CONNECTIONS).map(connect).collect::<std::io::Result<_>>();
        Ok(Self { streams: streams?, poll })
    }

    /// Sends `messages` messages over all connections and waits for their echoes.
    fn exchange(&mut self, messages: usize) -> std::io::Result<()> {
        let message = [7; LENGTH];
        let (mut left, mut away) = (messages, 0);
        for (stream, _) in &mut self.streams {
            if left > 0 {
                (left, away) = (left - 1, away + 1);
                stream.write_all(&message)?;
            }
        }
        let mut events = Events::with_capacity(CONNECTIONS);
        let mut buffer = [0; LENGTH];
        while away > 0 {
            match self.poll.poll(&mut events, Some(READ_TIMEOUT)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            if events.is_empty() {
                return Err(std::io::Error::new(ErrorKind::TimedOut, "it stopped answering"));
            }
            for event in &events {
                let (stream, read) = &mut self.streams[event.token().0];
                // Drain the socket, since events are edge-triggered.
                loop {
                    match stream.read(&mut buffer[*read..]) {
                        Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                        Ok(more) => *read += more,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                        Err(error) => return Err(error),
                    }
                    if *read == LENGTH {
                        (*read, away) = (0, away - 1);
                        if left > 0 {
                            (left, away) = (left - 1, away + 1);
                            stream.write_all(&message)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
