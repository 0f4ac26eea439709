//! The traits of futures.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};
use phalanx::net::PollStream;

use crate::compat::{Compat, impl_write};

impl<S: PollStream + Unpin> AsyncRead for Compat<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let room = buffer.len();
        let mut put = |bytes: &[u8]| buffer[..bytes.len()].copy_from_slice(bytes);
        self.here()?.poll_read(context, room, &mut put)
    }
}

impl_write!(AsyncWrite, poll_close);
