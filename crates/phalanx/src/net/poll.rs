//! Streams with poll functions, which are the basis of adaptors to the I/O traits of other crates.
//!
//! Those traits borrow the caller's buffers, whereas a driver owns the buffers of its requests. Therefore a read copies
//! from the driver's buffer into the caller's, and a write copies into a buffer that is passed to the driver, unless
//! the kernel accepts the first bytes immediately. A write is reported as complete when the driver has its bytes, just
//! as `write(2)` returns when the kernel has them. The next write waits until the previous one has ended. If the stream
//! is dropped before that, it is closed after the write, and a drain waits for it.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes};
use phalanx_driver::{Done, Payload};

use super::{Stream, write_buffers};
use crate::io::{HomeSocket, Receive, RequestFuture, SendPayload};

/// A byte stream with poll functions. [`Polled`] implements it without encryption, and `phalanx_tls::PolledTls` with
/// TLS. `phalanx-compat` adapts any implementation to the traits of tokio, futures and hyper.
///
/// At most one task may read and one may write at a time. A function that returns [`Poll::Pending`] has stored the
/// waker.
pub trait PollStream {
    /// Whether this thread runs the processor of the stream. All other functions fail on other threads.
    fn is_home(&self) -> bool;

    /// Passes at most `room` received bytes to `put` in one call, and returns their number. Zero means the end of the
    /// stream, unless `room` is zero. `put` is called only if the result is above zero.
    ///
    /// # Errors
    /// The errors of [`Stream::read`].
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: usize,
        put: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<usize>>;

    /// Takes bytes from the start of `parts` to send them, and returns their number. It is above zero if any part has
    /// bytes.
    ///
    /// # Errors
    /// The errors of [`Stream::write`], from this write or from an earlier one.
    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>>;

    /// Waits until all accepted bytes will be sent without further polling.
    ///
    /// # Errors
    /// The errors of [`Stream::write`], of an earlier write.
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Waits until the kernel has all accepted bytes, and shuts down the write direction.
    ///
    /// # Errors
    /// The errors of [`Stream::write`], from an earlier write, and of [`Stream::shutdown`].
    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;
}

impl<S: PollStream + ?Sized> PollStream for Box<S> {
    fn is_home(&self) -> bool {
        (**self).is_home()
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: usize,
        put: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<usize>> {
        (**self).poll_read(context, room, put)
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        (**self).poll_write(context, parts)
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        (**self).poll_flush(context)
    }

    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        (**self).poll_shutdown(context)
    }
}

/// A [`Stream`] with poll functions.
///
/// ```
/// use std::future::poll_fn;
/// use std::io::IoSlice;
/// use phalanx::net::{PollStream, Polled, Stream};
///
/// /// Sends all bytes back until the client ends the stream.
/// async fn echo(stream: Stream) -> std::io::Result<()> {
///     let mut stream = Polled::new(stream);
///     loop {
///         let mut bytes = Vec::new();
///         let mut put = |read: &[u8]| bytes.extend_from_slice(read);
///         if poll_fn(|context| stream.poll_read(context, 4096, &mut put)).await? == 0 {
///             return poll_fn(|context| stream.poll_shutdown(context)).await;
///         }
///         let mut rest = &bytes[..];
///         while !rest.is_empty() {
///             let part = [IoSlice::new(rest)];
///             let taken = poll_fn(|context| stream.poll_write(context, &part)).await?;
///             rest = &rest[taken..];
///         }
///     }
/// }
/// # let _ = echo;
/// ```
#[derive(Debug)]
pub struct Polled {
    /// `None` only while this is being dropped.
    stream: Option<Stream>,
    reading: Option<RequestFuture<Receive>>,
    writing: Option<RequestFuture<SendPayload>>,
    /// Whether a task waits for the end of the write.
    is_awaited: bool,
    /// How many looks for the end of the write to omit, because they are probably in the turn in which the write began,
    /// and no write ends in that turn: those of a flush and of the start of a read.
    skipped_checks: u8,
    /// Received bytes that did not fit, because the read that takes them has less room than the one that started the
    /// receive.
    rest: Bytes,
}

impl Polled {
    /// Wraps a stream that has no read or write in progress.
    pub fn new(stream: Stream) -> Self {
        Self {
            stream: Some(stream),
            reading: None,
            writing: None,
            is_awaited: false,
            skipped_checks: 0,
            rest: Bytes::new(),
        }
    }

    /// The stream, for its addresses and options.
    pub fn stream(&self) -> &Stream {
        self.stream.as_ref().expect("the stream is taken only by the destructor")
    }

    /// [Offers](Stream::offer) the stream to other processors, unless a read has left bytes. If another processor
    /// should serve it, first waits for the end of the last write. Resolves to true if the stream has moved; then drop
    /// it. A read in progress prevents a move, so if a [move is pending](Self::is_move_pending), do not read before the
    /// next offer.
    ///
    /// # Errors
    /// The errors of [`Stream::write`], from the last write.
    pub fn poll_offer(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.reading.is_some() {
            // The read may have completed.
            self.socket().prepare_move();
            return Poll::Ready(Ok(false));
        }
        if self.rest.has_remaining() {
            return Poll::Ready(Ok(false));
        }
        if self.is_move_pending() {
            ready!(self.poll_written(context))?
        } else {
            self.skipped_checks = 0;
            self.take_written()?
        }
        Poll::Ready(Ok(self.stream().offer()))
    }

    /// Whether another processor should serve the stream, but the stream could not move when it was last offered. It
    /// moves when it is offered again while no read is in progress.
    pub fn is_move_pending(&self) -> bool {
        self.socket().is_move_pending()
    }

    /// Closes the stream like its destructor, but first sends the bytes of a write in progress, then `rest`. Used by
    /// wrappers that buffer accepted bytes.
    pub fn finish(mut self, rest: Vec<u8>) {
        self.end(rest);
    }

    fn end(&mut self, rest: Vec<u8>) {
        // A read in progress ends with the stream.
        self.reading = None;
        match (self.writing.take(), self.stream.take()) {
            (Some(writing), Some(stream)) => writing.finish_alone(stream.0, rest),
            (None, Some(stream)) if !rest.is_empty() => stream.0.send_last(rest),
            _ => {}
        }
    }

    /// Whether the last write was still in progress at the last poll, because the kernel had not accepted all of its
    /// bytes.
    pub fn is_sending(&self) -> bool {
        self.writing.is_some()
    }

    fn socket(&self) -> &HomeSocket {
        &self.stream().0
    }

    /// Waits for the end of the last write.
    fn poll_written(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(writing) = &mut self.writing else { return Poll::Ready(Ok(())) };
        self.is_awaited = true;
        let written = ready!(Pin::new(writing).poll(context));
        (self.writing, self.is_awaited) = (None, false);
        match written? {
            Done::Sent(memory) => write_buffers::recycle(memory),
            other => unreachable!("send completed with {other:?}"),
        }
        Poll::Ready(Ok(()))
    }
}

impl Polled {
    /// Takes the result of a write that has ended. Does not replace the waker of a task that waits for the write.
    fn take_written(&mut self) -> io::Result<()> {
        if self.is_awaited || self.writing.is_none() {
            return Ok(());
        }
        if self.skipped_checks > 0 {
            self.skipped_checks -= 1;
            return Ok(());
        }
        let written = self.poll_written(&mut Context::from_waker(Waker::noop()));
        self.is_awaited = false;
        if let Poll::Ready(written) = written { written } else { Ok(()) }
    }
}

impl From<Stream> for Polled {
    fn from(stream: Stream) -> Self {
        Self::new(stream)
    }
}

impl PollStream for Polled {
    #[inline]
    fn is_home(&self) -> bool {
        self.socket().is_home()
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: usize,
        put: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<usize>> {
        if room == 0 {
            return Poll::Ready(Ok(0));
        }
        if self.rest.has_remaining() {
            let part = self.rest.split_to(room.min(self.rest.len()));
            put(&part);
            return Poll::Ready(Ok(part.len()));
        }
        let Some(reading) = &mut self.reading else {
            let receive = |socket| Receive { socket, max: room };
            self.reading = Some(self.socket().start(receive, context.waker())?);
            // An idle stream keeps no write buffer.
            self.take_written()?;
            return Poll::Pending;
        };
        // A poll of a read in progress is in a later turn.
        self.skipped_checks = 0;
        let Poll::Ready(received) = Pin::new(reading).poll(context) else {
            self.take_written()?;
            return Poll::Pending;
        };
        self.reading = None;
        let Done::Received(chunk) = received? else { unreachable!("a receive receives") };
        let (part, rest) = chunk.split_at(room.min(chunk.len()));
        if !part.is_empty() {
            put(part);
        }
        if !rest.is_empty() {
            self.rest = Bytes::copy_from_slice(rest);
        }
        Poll::Ready(Ok(part.len()))
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_written(context))?;
        let sent = self.socket().send_now(parts)?;
        if sent > 0 {
            return Poll::Ready(Ok(sent));
        }
        let head = write_buffers::copy(parts.iter().map(|part| &**part));
        let taken = head.len();
        if taken == 0 {
            write_buffers::recycle(head);
            return Poll::Ready(Ok(0));
        }
        let payload = Payload::from(head);
        let send = |socket| SendPayload { socket, payload };
        self.socket().stop_ahead_if_leaving();
        // The write is started without a waker, because only the next write needs to know that it has ended.
        self.writing = Some(self.socket().start(send, Waker::noop())?);
        self.skipped_checks = 2;
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.take_written())
    }

    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_written(context))?;
        Poll::Ready(self.stream().shutdown(Shutdown::Write))
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        self.end(Vec::new());
    }
}
