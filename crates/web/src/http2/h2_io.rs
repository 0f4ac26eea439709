//! h2's way to the transport: tokio's traits over ours, without anything of tokio behind them.
//!
//! The traits lend buffers and are polled; our I/O owns its buffers and completes. So a piece is gathered
//! ([`WriteBuffer`]) while the one before it is under way. Both directions go through the network stage, as
//! HTTP/1.1's do.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use phalanx::Call;
use phalanx::net::IoTimeout;
use phalanx::time::now;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::transport::Transport;
use crate::http2::monitor::Monitor;
use crate::http2::write_buffer::WriteBuffer;
use crate::stages::Stages;

/// A connection as h2 sees it.
pub(super) struct H2Io {
    transport: Rc<Transport>,
    stages: Stages,
    /// Received; h2 has taken the first `taken` bytes of it.
    input: Vec<u8>,
    taken: usize,
    reading: Option<Call<(Vec<u8>, io::Result<usize>)>>,
    write_buffer: Rc<WriteBuffer>,
    monitor: Rc<Monitor>,
}

impl H2Io {
    /// `early` was received already.
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

    /// Where the frames are seen.
    pub(super) fn monitor(&self) -> Rc<Monitor> {
        self.monitor.clone()
    }

    /// Where what h2 writes is gathered.
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
                    // The connection's own timer ends the wait.
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
        // It would keep the connection open.
        if let Some(call) = &self.reading {
            call.end();
        }
        self.write_buffer.end();
    }
}
