//! Streams that hold bytes until they are flushed, as encrypted ones do.

use std::io::{self, IoSlice, Read, Write};
use std::task::{Context, Poll, ready};

use phalanx::net::{PollStream, Polled};
use phalanx_compat::{Compat, portable};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::wrong_processor::{CONTENT_BYTES, on_thread, serve};

/// A stream that sends nothing before it is flushed.
struct Holding {
    stream: Polled,
    held: Vec<u8>,
}

impl PollStream for Holding {
    fn is_home(&self) -> bool {
        self.stream.is_home()
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: usize,
        put: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<usize>> {
        self.stream.poll_read(context, room, put)
    }

    fn poll_write(
        &mut self,
        _: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let before = self.held.len();
        parts.iter().for_each(|part| self.held.extend_from_slice(part));
        Poll::Ready(Ok(self.held.len() - before))
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.held.is_empty() {
            let sent = ready!(self.stream.poll_write(context, &[IoSlice::new(&self.held)]))?;
            self.held.drain(..sent);
        }
        self.stream.poll_flush(context)
    }

    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(context))?;
        self.stream.poll_shutdown(context)
    }
}

#[test]
fn a_relay_flushes_all_bytes_before_it_waits_and_before_it_ends() {
    serve(
        |stage, stream| async move {
            let (stream, relay) =
                portable(Holding { stream: Polled::new(stream), held: Vec::new() });
            let relay = stage.call(move |_| relay);
            on_thread(async move {
                let mut stream = Compat::new(stream);
                stream.write_all(&vec![1; CONTENT_BYTES]).await.unwrap();
                // The client answers when it has everything.
                stream.read_exact(&mut [0]).await.unwrap();
                stream.write_all(&vec![2; CONTENT_BYTES]).await.unwrap();
            })
            .await;
            relay.await.unwrap();
        },
        |mut client| {
            let mut first = vec![0; CONTENT_BYTES];
            client.read_exact(&mut first).unwrap();
            assert!(first == vec![1; CONTENT_BYTES]);
            client.write_all(b"x").unwrap();
            let mut rest = Vec::new();
            client.read_to_end(&mut rest).unwrap();
            assert!(rest == vec![2; CONTENT_BYTES]);
        },
    );
}
