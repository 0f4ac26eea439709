//! A connection that may move to another processor between two requests.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use phalanx::net::{PollStream, Polled};

use crate::progress::Progress;

/// A plain stream that is [offered](Polled::poll_offer) when its [`Progress`] permits. hyper reads the end of the stream
/// when it has moved, and closes the connection, which no longer is here.
pub(crate) struct Offered {
    stream: Polled,
    /// None for a connection that stays.
    progress: Option<Progress>,
}

impl Offered {
    pub(crate) fn new(stream: Polled, progress: Option<Progress>) -> Self {
        Self { stream, progress }
    }
}

impl PollStream for Offered {
    fn is_home(&self) -> bool {
        self.stream.is_home()
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: usize,
        put: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<usize>> {
        let Some(progress) = &self.progress else {
            return self.stream.poll_read(context, room, put);
        };
        // hyper looks for the end of the stream while a handler waits. That read would keep the connection here.
        if self.stream.is_leaving() && progress.waits_for_answer(context) {
            return Poll::Pending;
        }
        if progress.is_between() && ready!(self.stream.poll_offer(context))? {
            return Poll::Ready(Ok(0));
        }
        self.stream.poll_read(context, room, &mut |bytes| {
            progress.read(bytes);
            put(bytes);
        })
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream.poll_write(context, parts)
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.stream.poll_flush(context))?;
        if let Some(progress) = &self.progress {
            progress.flushed();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_shutdown(context)
    }
}
