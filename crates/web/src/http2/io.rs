//! The byte stream of a connection: reads and writes are calls of the network stage, one of each at a time.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use phalanx::Call;
use phalanx::metrics::Times;
use phalanx::net::{Bytes, IoTimeout, Payload};
use phalanx::stage::Shared;
use phalanx_tls::Wire;

use crate::http2::SharedConnection;
use crate::socket::answered::Answered;
use crate::socket::buffers;
use crate::socket::linger::Linger;
use crate::stages::Stages;

/// A connection's byte stream.
pub(super) struct Io {
    transport: Rc<Wire>,
    stages: Stages,
    /// Applies to each write.
    timeout: IoTimeout,
    /// Requests with responses in the output.
    answered: Rc<Cell<Answered>>,
    reading: Option<Call<(Vec<u8>, io::Result<usize>)>>,
    writing: Option<Call<io::Result<Vec<u8>>>>,
}

impl Io {
    pub(super) fn new(
        transport: Rc<Wire>,
        stages: Stages,
        timeout: IoTimeout,
        answered: Rc<Cell<Answered>>,
    ) -> Self {
        Self { transport, stages, timeout, answered, reading: None, writing: None }
    }

    /// Sets the time limit of each write from now on.
    pub(super) fn set_timeout(&mut self, timeout: IoTimeout) {
        self.timeout = timeout;
    }

    /// Appends received bytes to `input`. Returns how many; zero at the end of the stream.
    pub(super) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        input: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        let call = self.reading.get_or_insert_with(|| {
            let (transport, mut input) = (self.transport.clone(), std::mem::take(input));
            // An idle connection keeps no large buffer.
            buffers::shrink_idle(&mut input);
            self.stages.network.call(move |_| async move {
                // The connection's own timer bounds the wait.
                let received = transport.read(&mut input, IoTimeout::NONE).await;
                (input, received)
            })
        });
        let received = ready!(Pin::new(call).poll(context));
        self.reading = None;
        let (memory, received) = received.map_err(io::Error::other)?;
        *input = memory;
        Poll::Ready(received)
    }

    /// Sends the connection's output. Pending while a write is in progress; ready once everything is sent.
    pub(super) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        connection: &SharedConnection,
    ) -> Poll<io::Result<()>> {
        loop {
            if let Some(call) = &mut self.writing {
                let sent = ready!(Pin::new(call).poll(context));
                self.writing = None;
                buffers::recycle(sent.unwrap_or_else(|error| Err(io::Error::other(error)))?);
            }
            if connection.borrow().output_len() == 0 {
                return Poll::Ready(Ok(()));
            }
            let head = connection.borrow_mut().take_output(buffers::get());
            let (transport, timeout) = (self.transport.clone(), self.timeout);
            let payload = Payload { head, body: Bytes::new() };
            let answered = self.answered.take();
            let send = move |latency: Shared<Times>| async move {
                let sent = transport.write(payload, timeout).await;
                if sent.is_ok() {
                    answered.sent(&latency);
                }
                sent
            };
            self.writing = Some(self.stages.network.call(send));
        }
    }

    /// Closes the sending side. Before that, everything must be sent.
    pub(super) async fn finish(&self) {
        let (transport, timeout) = (self.transport.clone(), self.timeout);
        let finish = move |_| async move { transport.finish(timeout).await };
        let _ = self.stages.network.run(finish).await;
    }

    /// Reads and discards for a moment, or until the client closes the connection.
    pub(super) async fn linger(&mut self) {
        if let Some(call) = self.reading.take() {
            call.cancel();
        }
        let mut input = Vec::new();
        let read = async |limit| {
            input.clear();
            self.transport.read(&mut input, limit).await.unwrap_or(0)
        };
        Linger::BRIEF.read(read).await;
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        // Pending calls would keep the connection open.
        if let Some(call) = &self.reading {
            call.cancel();
        }
        if let Some(call) = &self.writing {
            call.cancel();
        }
    }
}
