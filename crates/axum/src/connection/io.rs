//! A connection's bytes, plain or encrypted, with notes of its progress and a lingering close.
//!
//! If a socket is closed before the client has sent everything, the kernel resets the connection, and the client may
//! lose the response (RFC 9112 §9.6), for example 413 for content that is too long. So if a handler has not read the
//! content of a request to its end, the connection shuts down its sending side, and reads and discards input.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use phalanx::net::PollStream;
use phalanx::time::{Sleep, sleep};
#[cfg(feature = "tls")]
use phalanx_tls::PolledTls;

use crate::connection::offered::Offered;
use crate::connection::progress::Progress;

/// The longest time that input is discarded.
const MAX_TIME: Duration = Duration::from_secs(5);
/// Maximum number of bytes that are discarded.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Maximum number of bytes in one read.
const READ_BYTES: usize = 64 * 1024;

/// The bytes of a connection.
pub(crate) struct Io {
    stream: Kind,
    progress: Progress,
    /// Set once the sending side is shut down, if the client may still send content.
    discard: Option<Box<DiscardLimits>>,
}

/// A plain or encrypted stream.
#[allow(clippy::large_enum_variant, reason = "a plain stream, the usual one, needs no box")]
pub(crate) enum Kind {
    Plain(Offered),
    #[cfg(feature = "tls")]
    Tls(Box<PolledTls>),
}

/// The bounds of the input that will be discarded.
struct DiscardLimits {
    time: Sleep,
    bytes: usize,
}

impl Kind {
    fn stream(&mut self) -> &mut dyn PollStream {
        match self {
            Self::Plain(stream) => stream,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => &mut **stream,
        }
    }

    fn is_sending(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_sending(),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.is_sending(),
        }
    }
}

impl Io {
    pub(crate) fn new(stream: Kind, progress: Progress) -> Self {
        Self { stream, progress, discard: None }
    }
}

impl PollStream for Io {
    fn is_home(&self) -> bool {
        match &self.stream {
            Kind::Plain(stream) => stream.is_home(),
            #[cfg(feature = "tls")]
            Kind::Tls(stream) => stream.is_home(),
        }
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: usize,
        put: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<usize>> {
        self.stream.stream().poll_read(context, room, put)
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.stream.stream().poll_write(context, parts);
        self.progress.record_write(&written);
        written
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.stream.stream().poll_flush(context))?;
        self.progress.flushed(self.stream.is_sending());
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.discard.is_none() {
            ready!(self.stream.stream().poll_shutdown(context))?;
            if !self.progress.has_unread_content() {
                return Poll::Ready(Ok(()));
            }
        }
        let discard = self.discard.get_or_insert_with(|| {
            Box::new(DiscardLimits { time: sleep(MAX_TIME), bytes: MAX_BYTES })
        });
        while discard.bytes > 0 && Pin::new(&mut discard.time).poll(context).is_pending() {
            match ready!(self.stream.stream().poll_read(context, READ_BYTES, &mut |_| ())) {
                Ok(0) | Err(_) => break,
                Ok(read) => discard.bytes = discard.bytes.saturating_sub(read),
            }
        }
        Poll::Ready(Ok(()))
    }
}
