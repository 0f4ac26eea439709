//! Sockets with blocking calls, for fibres.
//!
//! [`Stream`] implements [`Read`] and [`Write`], so that code for [`std::net::TcpStream`] works with it. Other methods
//! of the socket are available through [`Stream::get_ref`].

use std::cell::Cell;
use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::path::Path;

use phalanx_fibre::wait;

use crate::net::{self, IoTimeout, write_buffers};

/// A TCP or Unix connection whose calls suspend the fibre that makes them.
///
/// Like a [`net::Stream`], it belongs to the processor that created it. `&Stream` implements `Read` and `Write` too.
/// While a fibre unwinds, because it panicked or its session has ended, reads and writes fail. So the destructor of a
/// [`BufWriter`](std::io::BufWriter) sends nothing to a client.
///
/// ```
/// use phalanx::fibre::net::Stream;
/// use phalanx::net::IoTimeout;
/// use std::io::{BufRead, BufReader, Write};
/// use std::net::SocketAddr;
/// use std::time::Duration;
///
/// /// Called in a fibre.
/// fn greeting(server: SocketAddr) -> std::io::Result<String> {
///     let timeout = IoTimeout::after(Duration::from_secs(5));
///     let stream = Stream::connect(server, timeout)?;
///     stream.set_read_timeout(timeout);
///     (&stream).write_all(b"hello\n")?;
///     let mut line = String::new();
///     BufReader::new(&stream).read_line(&mut line)?;
///     Ok(line)
/// }
/// ```
pub struct Stream {
    stream: net::Stream,
    read_timeout: Cell<IoTimeout>,
    write_timeout: Cell<IoTimeout>,
}

impl From<net::Stream> for Stream {
    fn from(stream: net::Stream) -> Self {
        let none = || Cell::new(IoTimeout::NONE);
        Self { stream, read_timeout: none(), write_timeout: none() }
    }
}

impl Stream {
    /// Opens a TCP connection to `address`; see [`net::Stream::connect`].
    ///
    /// # Errors
    /// The errors of `connect(2)` and of [`IoTimeout`].
    #[track_caller]
    pub fn connect(address: SocketAddr, timeout: IoTimeout) -> io::Result<Self> {
        refuse_while_unwinding()?;
        wait(net::Stream::connect(address, timeout)).map(Self::from)
    }

    /// Opens a connection to the Unix socket at `path`; see [`net::Stream::connect_unix`].
    ///
    /// # Errors
    /// The errors of [`net::Stream::connect_unix`].
    #[track_caller]
    pub fn connect_unix(path: impl AsRef<Path>, timeout: IoTimeout) -> io::Result<Self> {
        refuse_while_unwinding()?;
        wait(net::Stream::connect_unix(path, timeout)).map(Self::from)
    }

    /// Sets the timeout of subsequent reads. The default is [`IoTimeout::NONE`].
    pub fn set_read_timeout(&self, timeout: IoTimeout) {
        self.read_timeout.set(timeout);
    }

    /// Sets the timeout of subsequent writes. The default is [`IoTimeout::NONE`].
    pub fn set_write_timeout(&self, timeout: IoTimeout) {
        self.write_timeout.set(timeout);
    }

    /// Shuts down one or both directions; see [`net::Stream::shutdown`].
    ///
    /// # Errors
    /// The errors of `shutdown(2)`.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.stream.shutdown(how)
    }

    /// The asynchronous stream. Use [`wait`] to wait for its futures.
    pub fn get_ref(&self) -> &net::Stream {
        &self.stream
    }

    /// Converts this into the asynchronous stream.
    pub fn into_inner(self) -> net::Stream {
        self.stream
    }

    #[track_caller]
    fn read_some(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        refuse_while_unwinding()?;
        wait(self.stream.read_some(buffer, self.read_timeout.get()))
    }

    /// Sends the first bytes of `parts`. They are copied, because the driver must own the bytes that it sends.
    #[track_caller]
    fn write_some<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> io::Result<usize> {
        refuse_while_unwinding()?;
        let mut buffer = write_buffers::copy(parts);
        let count = buffer.len();
        if count > 0 {
            buffer = wait(self.stream.write(buffer, self.write_timeout.get()))?;
        }
        write_buffers::recycle(buffer);
        Ok(count)
    }
}

/// Fails if the fibre is unwinding, because its destructors must not wait.
fn refuse_while_unwinding() -> io::Result<()> {
    if std::thread::panicking() {
        Err(io::Error::other("a fibre that is unwinding cannot wait for I/O"))
    } else {
        Ok(())
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stream.fmt(f)
    }
}

impl Read for &Stream {
    #[track_caller]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_some(buffer)
    }
}

impl Write for &Stream {
    #[track_caller]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_some(std::iter::once(bytes))
    }

    #[track_caller]
    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_some(parts.iter().map(|part| &**part))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    #[track_caller]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for Stream {
    #[track_caller]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    #[track_caller]
    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A listening socket whose calls suspend the fibre that makes them.
#[derive(Debug)]
pub struct Listener(net::Listener);

impl From<net::Listener> for Listener {
    fn from(listener: net::Listener) -> Self {
        Self(listener)
    }
}

impl Listener {
    /// Waits for the next connection. Returns `None` once the program drains; see
    /// [`net::Listener::accept_next`].
    #[track_caller]
    pub fn accept(&self) -> Option<Stream> {
        wait(self.0.accept_next()).map(Stream::from)
    }

    /// An iterator over the connections, which ends when the program drains.
    pub fn incoming(&self) -> impl Iterator<Item = Stream> {
        std::iter::from_fn(|| self.accept())
    }

    /// The address on which this socket listens.
    ///
    /// # Errors
    /// The errors of [`net::Listener::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}
