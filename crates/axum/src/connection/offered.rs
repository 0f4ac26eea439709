//! A connection that may move to another processor between two requests.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use phalanx::net::{PollStream, Polled};
use phalanx::time::{Sleep, sleep};

use crate::connection::progress::Progress;

/// The time for which a connection that is to move does not notice that its client has left. A handler that takes longer
/// is dropped with its client, and the connection stays.
const WATCH_DELAY: Duration = Duration::from_secs(1);

/// A plain stream that is [offered](Polled::poll_offer) when its [`Progress`] permits. hyper reads the end of the stream
/// when it has moved, and closes the connection, which no longer is here.
pub(crate) struct Offered {
    stream: Polled,
    progress: Progress,
    /// False for a connection that stays.
    moves: bool,
    /// The rest of [`WATCH_DELAY`].
    watch_timer: Option<Sleep>,
}

impl Offered {
    pub(crate) fn new(stream: Polled, progress: Progress, moves: bool) -> Self {
        Self { stream, progress, moves, watch_timer: None }
    }

    pub(crate) fn is_sending(&self) -> bool {
        self.stream.is_sending()
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
        if !self.moves {
            return self.stream.poll_read(context, room, put);
        }
        let progress = &self.progress;
        // hyper looks for the end of the stream while a handler waits. That read would keep the connection here.
        if self.stream.is_move_pending() && progress.waits_for_answer(context) {
            let watch_timer = self.watch_timer.get_or_insert_with(|| sleep(WATCH_DELAY));
            ready!(Pin::new(watch_timer).poll(context));
        } else {
            self.watch_timer = None;
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
        self.stream.poll_flush(context)
    }

    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_shutdown(context)
    }
}
