//! The traits of tokio.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use phalanx::net::PollStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::compat::{Compat, impl_write};

impl<S: PollStream + Unpin> AsyncRead for Compat<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buffer.remaining();
        ready!(self.here()?.poll_read(context, room, &mut |bytes| buffer.put_slice(bytes)))?;
        Poll::Ready(Ok(()))
    }
}

impl_write!(
    AsyncWrite,
    poll_shutdown,
    fn is_write_vectored(&self) -> bool {
        true
    }
);
