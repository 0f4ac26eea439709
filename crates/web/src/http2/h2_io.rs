//! The byte stream below h2: implements tokio's I/O traits without its runtime.
//!
//! The traits borrow buffers and are polled; this runtime's I/O owns its buffers and completes. Output is
//! therefore gathered in a [`WriteBuffer`] while the previous write is in progress. Both directions use the
//! network stage, like HTTP/1.1.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use phalanx::Call;
use phalanx::net::IoTimeout;
use phalanx::time::now;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http2::monitor::Monitor;
use crate::http2::write_buffer::WriteBuffer;
use crate::socket::transport::Transport;
use crate::stages::Stages;

/// A connection's byte stream.
pub(super) struct H2Io {
    transport: Rc<Transport>,
    stages: Stages,
    /// Received bytes; h2 has read the first `taken` of them.
    input: Vec<u8>,
    taken: usize,
    reading: Option<Call<(Vec<u8>, io::Result<usize>)>>,
    write_buffer: Rc<WriteBuffer>,
    monitor: Rc<Monitor>,
}

impl H2Io {
    /// Creates the stream; `early` contains bytes already received.
    pub(super) fn new(
        transport: Rc<Transport>,
        stages: Stages,
        sending: IoTimeout,
        early: Vec<u8>,
    ) -> Self {
        let monitor = Rc::new(Monitor::new());
        monitor.received(&early, now());
        let write_buffer =
            Rc::new(WriteBuffer::new(transport.clone(), stages, sending, monitor.clone()));
        Self { transport, stages, input: early, taken: 0, reading: None, write_buffer, monitor }
    }

    /// The monitor of the connection's frames.
    pub(super) fn monitor(&self) -> Rc<Monitor> {
        self.monitor.clone()
    }

    /// The buffer of h2's output.
    pub(super) fn write_buffer(&self) -> Rc<WriteBuffer> {
        self.write_buffer.clone()
    }
}

impl AsyncRead for H2Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.taken == this.input.len() {
            let call = this.reading.get_or_insert_with(|| {
                let transport = this.transport.clone();
                this.stages.network.call(move |_| async move {
                    let mut input = Vec::new();
                    // The connection's own timer bounds the wait.
                    let received = transport.read(&mut input, IoTimeout::NONE).await;
                    (input, received)
                })
            });
            let received = ready!(Pin::new(call).poll(context));
            this.reading = None;
            let (input, received) = received.map_err(io::Error::other)?;
            received?;
            (this.input, this.taken) = (input, 0);
            this.monitor.received(&this.input, now());
        }
        let rest = &this.input[this.taken..];
        let length = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..length]);
        this.taken += length;
        if this.taken == this.input.len() {
            // An idle connection keeps no buffer.
            (this.input, this.taken) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for H2Io {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write_buffer.poll_write(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write_buffer.poll_deferred_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write_buffer.poll_finish(context)
    }
}

impl Drop for H2Io {
    fn drop(&mut self) {
        // A pending read would keep the connection open.
        if let Some(call) = &self.reading {
            call.cancel();
        }
        self.write_buffer.end();
    }
}
