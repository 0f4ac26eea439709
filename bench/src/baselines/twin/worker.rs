//! A worker: serves a connection's requests one after another, in blocking code, on a thread or a fibre.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use phalanx::fibre::net::Stream;
use phalanx::net::IoTimeout;
use phalanx_http::{BodyParser, DateLine, Limits, Parse, ResponseBuffer, Scan};

/// Idle timeout of a connection.
const IDLE: Duration = Duration::from_secs(60);
/// Bytes of a file that are read and sent at a time.
pub(super) const BLOCK: usize = 64 * 1024;

/// State that is kept between connections.
pub(super) struct Worker {
    pub(super) root: Arc<OwnedFd>,
    limits: Limits,
    pub(super) date: DateLine,
    /// Received and unconsumed bytes.
    input: Vec<u8>,
    chunk: Box<[u8]>,
    pub(super) head: ResponseBuffer,
    pub(super) block: Box<[u8]>,
    pub(super) path: Vec<u8>,
}

impl Worker {
    pub(super) fn new(root: Arc<OwnedFd>) -> Self {
        Self {
            root,
            limits: Limits::default(),
            date: DateLine::new(0),
            input: Vec::new(),
            chunk: vec![0; 8192].into(),
            head: ResponseBuffer::lines(Vec::with_capacity(512)),
            block: vec![0; BLOCK].into(),
            path: Vec::new(),
        }
    }

    /// Serves a connection until either side closes it.
    pub(super) fn serve(&mut self, connection: impl Connection) {
        self.input.clear();
        // Broken connections are expected.
        let _ = self.converse(connection);
    }

    fn converse(&mut self, mut connection: impl Connection) -> io::Result<()> {
        connection.prepare(IDLE)?;
        let mut scan = Scan::default();
        loop {
            let input = std::mem::take(&mut self.input);
            let taken = match scan.parse(&input, &self.limits) {
                Ok(Parse::Incomplete) => None,
                Ok(Parse::Complete(request, end)) => {
                    let body = BodyParser::new(request.body, &self.limits);
                    let keep = body.is_ok() && request.keep_alive;
                    self.answer(&mut connection, &request, keep, body.is_err())?;
                    Some((end, body.ok().filter(|_| keep)))
                }
                Err(reject) => {
                    self.refuse(&mut connection, reject.status)?;
                    Some((input.len(), None))
                }
            };
            self.input = input;
            match taken {
                Some((end, Some(body))) => {
                    self.input.drain(..end);
                    self.swallow(&mut connection, body)?;
                }
                Some((_, None)) => return Ok(()),
                None => {
                    let read = connection.read(&mut self.chunk)?;
                    if read == 0 {
                        return Ok(());
                    }
                    self.input.extend_from_slice(&self.chunk[..read]);
                }
            }
        }
    }

    /// Discards a request's body.
    fn swallow(
        &mut self,
        connection: &mut impl Connection,
        mut body: BodyParser,
    ) -> io::Result<()> {
        loop {
            let taken = body.feed(&self.input).map_err(io::Error::other)?;
            self.input.drain(..taken);
            if body.is_done() {
                return Ok(());
            }
            let read = connection.read(&mut self.chunk)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.input.extend_from_slice(&self.chunk[..read]);
        }
    }
}

pub(super) trait Connection: Read + Write {
    /// Sends small packets immediately, and limits each read and each write.
    fn prepare(&self, timeout: Duration) -> io::Result<()>;
}

impl Connection for TcpStream {
    fn prepare(&self, timeout: Duration) -> io::Result<()> {
        self.set_nodelay(true)?;
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }
}

/// Its listeners set `TCP_NODELAY`.
impl Connection for Stream {
    fn prepare(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(IoTimeout::after(timeout));
        self.set_write_timeout(IoTimeout::after(timeout));
        Ok(())
    }
}
