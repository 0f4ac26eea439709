//! The futures of reads and writes of a stream, and a write without a future. They are written by hand because an
//! `async fn` would be larger: it stores its arguments twice.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use phalanx_driver::Done;

use super::Stream;
use crate::io::{HomeSocket, Receive, RequestFuture, SendPayload};

impl Stream {
    /// Sends as many of `bytes` as possible without waiting, and none if a [`write`](Self::write) is in progress.
    /// Returns the number of bytes sent, which may be zero. The caller must write the others. A server with many
    /// connections should use `write` instead, because the driver batches concurrent writes.
    ///
    /// # Errors
    /// The errors of `send(2)`.
    pub fn send_now(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send_alone(bytes)
    }
}

/// The future of [`Stream::read`](super::Stream::read).
pub(super) struct Reading<'a> {
    pub(super) received: RequestFuture<Receive>,
    pub(super) buffer: &'a mut Vec<u8>,
}

impl Future for Reading<'_> {
    type Output = io::Result<usize>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match ready!(Pin::new(&mut self.received).poll(context))? {
            Done::Received(chunk) => {
                self.buffer.extend_from_slice(&chunk);
                Poll::Ready(Ok(chunk.len()))
            }
            other => unreachable!("receive completed with {other:?}"),
        }
    }
}

/// The future of [`Stream::write`](super::Stream::write).
pub(super) struct WriteFuture<'a> {
    pub(super) stream: &'a HomeSocket,
    pub(super) sending: RequestFuture<SendPayload>,
}

impl Future for WriteFuture<'_> {
    type Output = io::Result<Vec<u8>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { stream, sending } = &mut *self;
        if let Some(head) = sending.send_now(stream)? {
            return Poll::Ready(Ok(head));
        }
        match ready!(Pin::new(sending).poll(context))? {
            Done::Sent(head) => Poll::Ready(Ok(head)),
            other => unreachable!("send completed with {other:?}"),
        }
    }
}
