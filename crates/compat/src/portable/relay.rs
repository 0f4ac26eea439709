//! The side of a portable stream that stays, and does its I/O.

use std::future::Future;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use phalanx::net::PollStream;

use super::{MAX_BUFFERED, Pipe, Shutdown, wake};

/// Maximum number of bytes in one read.
const MAX_READ: usize = 16 * 1024;

/// Maximum number of steps in one poll.
const MAX_STEPS: usize = 16;

/// The future that does the I/O of a [`Portable`](super::Portable) stream for other threads, made by
/// [`portable`](super::portable). Dropping it closes the connection if it was handed over.
#[must_use = "futures do nothing unless awaited"]
pub struct Relay<S> {
    pipe: Arc<Pipe<S>>,
    /// Once it was handed over.
    stream: Option<S>,
    sending: Vec<u8>,
    sent: usize,
    /// The stream holds no bytes that it has taken. An encrypted stream holds some until the next call.
    is_flushed: bool,
}

/// A step of the sending direction.
enum Step {
    Written(usize),
    Flushed,
    ShutDown,
}

impl<S: PollStream + Unpin> Relay<S> {
    pub(super) fn new(pipe: Arc<Pipe<S>>) -> Self {
        Self { pipe, stream: None, sending: Vec::new(), sent: 0, is_flushed: true }
    }

    /// Takes the stream and the output that the other side has left. Returns how many bytes it has room for, whether
    /// the sending direction is to be shut down, and whether the other side is gone.
    fn collect(&mut self, context: &mut Context<'_>) -> (usize, bool, bool) {
        let waker = context.waker().clone();
        let mut pipe = self.pipe.lock();
        let before = pipe.relay.replace(waker);
        if self.stream.is_none() {
            self.stream = pipe.stream.take();
        }
        let mut writer = None;
        if self.sent == self.sending.len() && !pipe.output.is_empty() {
            self.sent = 0;
            self.sending.clear();
            std::mem::swap(&mut self.sending, &mut pipe.output);
            writer = pipe.writer.take();
        }
        let room = if pipe.end_result.is_some() { 0 } else { MAX_BUFFERED - pipe.input.len() };
        let wanted = (room, pipe.shutdown == Shutdown::Requested, pipe.is_dropped);
        drop(pipe);
        drop(before);
        wake(writer);
        wanted
    }

    /// Continues to send, then to flush, and then to shut down. Returns whether anything happened.
    fn send(&mut self, context: &mut Context<'_>, shutdown: bool) -> bool {
        let Some(stream) = &mut self.stream else { return false };
        let rest = &self.sending[self.sent..];
        let step = if !rest.is_empty() {
            stream.poll_write(context, &[IoSlice::new(rest)]).map_ok(Step::Written)
        } else if shutdown {
            stream.poll_shutdown(context).map_ok(|()| Step::ShutDown)
        } else if !self.is_flushed {
            stream.poll_flush(context).map_ok(|()| Step::Flushed)
        } else {
            return false;
        };
        let Poll::Ready(step) = step else { return false };
        self.is_flushed = !matches!(step, Ok(Step::Written(_)));
        let mut pipe = self.pipe.lock();
        match step {
            Ok(Step::Written(count)) => {
                self.sent += count;
                return true;
            }
            Ok(Step::Flushed) => return true,
            Ok(Step::ShutDown) => pipe.shutdown = Shutdown::Done,
            Err(error) => {
                pipe.failed = Some(error.kind());
                pipe.shutdown = Shutdown::Done;
                pipe.output.clear();
                (self.sent, self.sending) = (0, Vec::new());
            }
        }
        let writer = pipe.writer.take();
        drop(pipe);
        wake(writer);
        true
    }

    /// Receives at most `room` bytes. Returns whether anything happened.
    fn receive(&mut self, context: &mut Context<'_>, room: usize) -> bool {
        let Some(stream) = self.stream.as_mut().filter(|_| room > 0) else { return false };
        let mut received = Vec::new();
        let mut put = |bytes: &[u8]| received.extend_from_slice(bytes);
        let Poll::Ready(result) = stream.poll_read(context, room.min(MAX_READ), &mut put) else {
            return false;
        };
        let mut pipe = self.pipe.lock();
        match result {
            Ok(0) => pipe.end_result = Some(Ok(())),
            Ok(_) => pipe.input.append(&mut received),
            Err(error) => pipe.end_result = Some(Err(error.kind())),
        }
        let reader = pipe.reader.take();
        drop(pipe);
        wake(reader);
        true
    }
}

impl<S: PollStream + Unpin> Future for Relay<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        for _ in 0..MAX_STEPS {
            let (room, shutdown, is_dropped) = this.collect(context);
            let sent = this.send(context, shutdown);
            let is_sending = this.sent < this.sending.len() || !this.is_flushed || shutdown;
            if is_dropped && !sent && !is_sending {
                return Poll::Ready(());
            }
            let received = !is_dropped && this.receive(context, room);
            if !sent && !received {
                return Poll::Pending;
            }
        }
        // The other side writes as fast as the kernel takes the bytes. Other operations have their turn.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<S> Drop for Relay<S> {
    fn drop(&mut self) {
        let mut pipe = self.pipe.lock();
        pipe.is_closed = true;
        let parts = (pipe.stream.take(), pipe.reader.take(), pipe.writer.take());
        drop(pipe);
        let (stream, reader, writer) = parts;
        drop(stream);
        wake(reader);
        wake(writer);
    }
}
