//! The side of a portable stream that moves.

use std::fmt;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll};

use phalanx::net::PollStream;

use super::{Closed, MAX_BUFFERED, Pipe, Shutdown, wake};

/// A stream that any thread may use, made by [`portable`](super::portable). After the first use on another thread, all
/// I/O passes through its [`Relay`](super::Relay).
pub struct Portable<S> {
    /// None once it was handed over.
    stream: Option<S>,
    pipe: Arc<Pipe<S>>,
}

impl<S: PollStream> Portable<S> {
    pub(super) fn new(stream: S, pipe: Arc<Pipe<S>>) -> Self {
        Self { stream: Some(stream), pipe }
    }

    /// The stream, if this is its processor and it was not handed over before. Otherwise hands it over.
    #[inline]
    fn direct(&mut self) -> Option<&mut S> {
        if !self.stream.as_ref()?.is_home() {
            self.hand_over();
        }
        self.stream.as_mut()
    }

    #[cold]
    fn hand_over(&mut self) {
        let mut pipe = self.pipe.lock();
        pipe.stream = self.stream.take();
        let relay = pipe.relay.take();
        drop(pipe);
        wake(relay);
    }
}

impl<S: PollStream> PollStream for Portable<S> {
    /// True on every thread.
    fn is_home(&self) -> bool {
        true
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
        if let Some(stream) = self.direct() {
            return stream.poll_read(context, room, put);
        }
        let waker = context.waker().clone();
        let mut pipe = self.pipe.lock();
        if !pipe.input.is_empty() {
            let count = room.min(pipe.input.len());
            let part: Vec<_> = pipe.input.drain(..count).collect();
            let relay = pipe.relay.take();
            drop(pipe);
            wake(relay);
            put(&part);
            return Poll::Ready(Ok(count));
        }
        match pipe.end_result {
            Some(end_result) => Poll::Ready(end_result.map(|()| 0).map_err(io::Error::from)),
            None if pipe.is_closed => Poll::Ready(Err(Closed.into())),
            None => {
                let before = pipe.reader.replace(waker);
                drop(pipe);
                drop(before);
                Poll::Pending
            }
        }
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(stream) = self.direct() {
            return stream.poll_write(context, parts);
        }
        let waker = context.waker().clone();
        let mut pipe = self.pipe.lock();
        if let Some(failed) = pipe.failed {
            return Poll::Ready(Err(failed.into()));
        }
        if pipe.is_closed {
            return Poll::Ready(Err(Closed.into()));
        }
        let before = pipe.output.len();
        if before == MAX_BUFFERED {
            let replaced = pipe.writer.replace(waker);
            drop(pipe);
            drop(replaced);
            return Poll::Pending;
        }
        for part in parts {
            let room = MAX_BUFFERED - pipe.output.len();
            pipe.output.extend_from_slice(&part[..room.min(part.len())]);
        }
        let length = pipe.output.len() - before;
        let relay = pipe.relay.take();
        drop(pipe);
        wake(relay);
        Poll::Ready(Ok(length))
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(stream) = self.direct() {
            return stream.poll_flush(context);
        }
        // The relay sends what it has without being asked.
        let pipe = self.pipe.lock();
        Poll::Ready(match pipe.failed {
            Some(failed) => Err(failed.into()),
            None if pipe.is_closed => Err(Closed.into()),
            None => Ok(()),
        })
    }

    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(stream) = self.direct() {
            return stream.poll_shutdown(context);
        }
        let waker = context.waker().clone();
        let mut pipe = self.pipe.lock();
        if let Some(failed) = pipe.failed {
            return Poll::Ready(Err(failed.into()));
        }
        if pipe.shutdown == Shutdown::Done {
            return Poll::Ready(Ok(()));
        }
        if pipe.is_closed {
            return Poll::Ready(Err(Closed.into()));
        }
        pipe.shutdown = Shutdown::Requested;
        let (before, relay) = (pipe.writer.replace(waker), pipe.relay.take());
        drop(pipe);
        drop(before);
        wake(relay);
        Poll::Pending
    }
}

impl<S> Drop for Portable<S> {
    fn drop(&mut self) {
        let mut pipe = self.pipe.lock();
        pipe.is_dropped = true;
        let relay = pipe.relay.take();
        drop(pipe);
        wake(relay);
    }
}

impl<S> fmt::Debug for Portable<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moved = self.stream.is_none();
        f.debug_struct("Portable").field("moved", &moved).finish_non_exhaustive()
    }
}
