//! h2's way to the transport: tokio's traits over ours, without anything of tokio behind them.
//!
//! The traits lend buffers and are polled; our I/O owns its buffers and completes. So a piece is gathered
//! here while the one before it is under way. Both directions go through the network stage, as
//! HTTP/1.1's do: one operation for each.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use phalanx::{Bytes, Call, Patience, Payload, now};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::transport::Transport;
use crate::http2::flood::Flood;
use crate::stages::Stages;

/// So much is gathered while the piece before it is sent; then h2 waits.
const GATHER: usize = 64 * 1024;

/// A connection as h2 sees it.
pub(super) struct Pipe {
    transport: Rc<Transport>,
    stages: Stages,
    sending: Patience,
    /// Received; h2 has taken the first `taken` bytes of it.
    input: Vec<u8>,
    taken: usize,
    reading: Option<Call<(Vec<u8>, io::Result<usize>)>>,
    /// To send next.
    out: Vec<u8>,
    writing: Option<Call<io::Result<Vec<u8>>>>,
    finishing: Option<Call<()>>,
    flood: Flood,
    /// Set once the client sends too much of what costs much.
    flooded: Rc<Cell<bool>>,
}

impl Pipe {
    /// `early` was received already.
    pub(super) fn new(
        transport: Rc<Transport>,
        stages: Stages,
        sending: Patience,
        early: Vec<u8>,
    ) -> Self {
        let mut flood = Flood::new();
        let flooded = Rc::new(Cell::new(!flood.see(&early, now())));
        Self {
            transport,
            stages,
            sending,
            input: early,
            taken: 0,
            reading: None,
            out: Vec::new(),
            writing: None,
            finishing: None,
            flood,
            flooded,
        }
    }

    /// Where it is said that the client sends too much of what costs much.
    pub(super) fn flooded(&self) -> Rc<Cell<bool>> {
        self.flooded.clone()
    }

    /// Begins to send what is gathered, once what was sent before it has gone.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(call) = &mut self.writing {
            let sent = ready!(Pin::new(call).poll(context));
            self.writing = None;
            let memory = sent.unwrap_or_else(|error| Err(io::Error::other(error)))?;
            if self.out.is_empty() {
                self.out = memory;
            }
        }
        if !self.out.is_empty() {
            let (transport, patience) = (self.transport.clone(), self.sending);
            let payload = Payload { head: std::mem::take(&mut self.out), body: Bytes::new() };
            let send = move |_| async move { transport.write(payload, patience).await };
            self.writing = Some(self.stages.network.call(send));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Pipe {
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
                    let received = transport.read(&mut input, Patience::ENDLESS).await;
                    (input, received)
                })
            });
            let received = ready!(Pin::new(call).poll(context));
            this.reading = None;
            let (input, received) = received.map_err(io::Error::other)?;
            received?;
            (this.input, this.taken) = (input, 0);
            if !this.flood.see(&this.input, now()) {
                this.flooded.set(true);
            }
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

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.out.len() >= GATHER {
            ready!(self.poll_send(context))?;
        }
        let before = self.out.len();
        for piece in pieces {
            let room = GATHER.saturating_sub(self.out.len());
            self.out.extend_from_slice(&piece[..piece.len().min(room)]);
        }
        Poll::Ready(Ok(self.out.len() - before))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.writing.is_some() || !self.out.is_empty() {
            ready!(self.poll_send(context))?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.finishing.is_none() {
            ready!(self.as_mut().poll_flush(context))?;
            let (transport, patience) = (self.transport.clone(), self.sending);
            let finish = move |_| async move { transport.finish(patience).await };
            self.finishing = Some(self.stages.network.call(finish));
        }
        let Some(call) = &mut self.finishing else { return Poll::Ready(Ok(())) };
        ready!(Pin::new(call).poll(context)).map_err(io::Error::other)?;
        Poll::Ready(Ok(()))
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // They would keep the connection open.
        if let Some(call) = &self.reading {
            call.end();
        }
        if let Some(call) = &self.writing {
            call.end();
        }
        if let Some(call) = &self.finishing {
            call.end();
        }
    }
}
