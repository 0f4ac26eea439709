//! Sending the body of a request while its response is received.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use phalanx::sleep;
use phalanx::time::{Sleep, now};

use crate::proxy::body::BodyError;
use crate::proxy::relay::SLOW_CLIENT;

/// How sending the body has ended.
pub(super) enum Upload {
    Complete,
    /// The server accepts no more of the body. Its response may give the reason.
    Stopped,
    Client(BodyError),
}

/// The body of a request that is being sent.
pub(super) struct Uploading<'a, F> {
    upload: Pin<&'a mut F>,
    result: Option<Upload>,
    /// Time since which it waits for the client; `None` if it does not.
    waiting: &'a Cell<Option<Duration>>,
}

/// Whichever finished first.
pub(super) enum Received<T> {
    Head(T),
    /// No head has arrived in time.
    TimedOut,
    Client(BodyError),
}

impl<'a, F: Future<Output = Upload>> Uploading<'a, F> {
    /// `waiting` is the time since which `upload` waits for the client.
    pub(super) fn new(upload: Pin<&'a mut F>, waiting: &'a Cell<Option<Duration>>) -> Self {
        Self { upload, result: None, waiting }
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) {
        if self.result.is_none()
            && let Poll::Ready(result) = self.upload.as_mut().poll(context)
        {
            self.result = Some(result);
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        matches!(self.result, Some(Upload::Complete))
    }

    /// Whether the client has not completed its request.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.result, Some(Upload::Client(_)))
    }

    /// Whether the client may be the reason that a server closes its connection without a response: the client has
    /// failed, or the server waits for the rest of its request.
    pub(super) fn excuses_close(&self) -> bool {
        let waits = |since: Duration| now().saturating_sub(since) >= SLOW_CLIENT;
        self.has_failed() || self.result.is_none() && self.waiting.get().is_some_and(waits)
    }

    /// Sends the body and receives the head of the response concurrently. The time limit for the head, if there is one,
    /// begins when the body is sent.
    pub(super) async fn receive<T>(
        &mut self,
        mut head: Pin<&mut impl Future<Output = T>>,
        limit: Option<Duration>,
    ) -> Received<T> {
        let mut timer: Option<Sleep> = None;
        poll_fn(|context| {
            let was_sending = self.result.is_none();
            self.poll(context);
            if let Poll::Ready(head) = head.as_mut().poll(context) {
                return Poll::Ready(Received::Head(head));
            }
            if let Some(Upload::Client(_)) = self.result {
                let Some(Upload::Client(error)) = self.result.take() else { unreachable!("it is") };
                return Poll::Ready(Received::Client(error));
            }
            if was_sending && self.result.is_some() {
                timer = limit.map(sleep);
            }
            if let Some(timer) = &mut timer
                && Pin::new(timer).poll(context).is_ready()
            {
                return Poll::Ready(Received::TimedOut);
            }
            Poll::Pending
        })
        .await
    }
}
