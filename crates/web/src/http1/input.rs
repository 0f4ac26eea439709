//! Input of an HTTP/1.1 connection.

use std::io;

use phalanx::net::IoTimeout;
use phalanx::time::now;
use phalanx_http::{BodyParser, Status};

use crate::http1::connection::{Connection, Next};
use crate::respond::refusal::error_page;
use crate::socket::buffers;
use crate::socket::linger::Linger;
use crate::socket::network::{Buffers, Received, send_and_receive};

impl Connection {
    /// Sends the gathered responses, then waits for input.
    pub(super) async fn receive(&mut self) -> io::Result<Next> {
        let has_answered = self.taken > 0;
        self.input.drain(..self.taken);
        self.taken = 0;
        buffers::shrink_idle(&mut self.input);
        buffers::shrink_idle(&mut self.path);
        let timeouts = &self.site.timeouts;
        // One time limit covers all bytes of a request.
        let timeout = match self.begun {
            None => IoTimeout::after(timeouts.idle).until_shutdown(),
            Some(begun) => IoTimeout::after(timeouts.request.saturating_sub(now() - begun)),
        };
        // Between two requests, the connection has no state except its socket.
        let may_move =
            has_answered && self.input.is_empty() && self.https.is_none() && !self.peer.is_named;
        let received = match may_move {
            true => self.receive_more::<true>(timeout).await,
            false => self.receive_more::<false>(timeout).await,
        };
        match received {
            Received::Bytes(1..) => {
                self.begun.get_or_insert_with(now);
                Ok(Next::Request)
            }
            Received::TimedOut if self.begun.is_some() => {
                self.refuse(Status::RequestTimeout, error_page).await
            }
            _ => Ok(Next::Close),
        }
    }

    /// Sends the gathered responses, then appends received bytes to the input. If `MAY_MOVE`, the connection is offered
    /// to the other processors in between.
    async fn receive_more<const MAY_MOVE: bool>(&mut self, timeout: IoTimeout) -> Received {
        let out = self.out.buffer.take();
        let (input, permit) = (std::mem::take(&mut self.input), self.permit.take());
        let sending = self.out.pace.timeout(out.len() as u64);
        self.out.pace.reset();
        let (answered, records) = (std::mem::take(&mut self.answered), self.take_records());
        let admission = if MAY_MOVE { self.peer.admission.take() } else { None };
        let buffers = Buffers { out, input, permit, admission, records, answered };
        let (buffers, received) =
            send_and_receive::<MAY_MOVE>(self.stages, &self.transport, buffers, sending, timeout)
                .await;
        self.input = buffers.input;
        if MAY_MOVE {
            self.peer.admission = buffers.admission;
        }
        if matches!(received, Received::Bytes(1..)) {
            self.out.buffer.reuse(buffers::get());
        }
        received
    }

    /// Reads and discards the body of a request that is already answered. A malformed body gets an error
    /// response, which tells the client that no later request will be read.
    pub(super) async fn discard_body(&mut self, mut body: BodyParser) -> io::Result<Next> {
        let begun = now();
        loop {
            match body.feed(&self.input[self.taken..]) {
                Ok(bytes) => self.taken += bytes,
                Err(reject) => {
                    // The rest is not a request line and is not logged as one.
                    self.taken = self.input.len();
                    return self.refuse(reject.status, error_page).await;
                }
            }
            if body.is_done() {
                return Ok(Next::Request);
            }
            self.input.clear();
            self.taken = 0;
            let limit = self.site.timeouts.body.saturating_sub(now() - begun);
            if !matches!(
                self.receive_more::<false>(IoTimeout::after(limit)).await,
                Received::Bytes(1..)
            ) {
                self.out.send().await?;
                Box::pin(self.linger(Linger::BRIEF)).await;
                return Ok(Next::Close);
            }
        }
    }

    /// Shuts down the sending side, then reads and discards.
    pub(super) async fn linger(&mut self, bounds: Linger) {
        self.transport.finish(self.out.pace.timeout(0)).await;
        let read = async |limit| {
            self.input.clear();
            match self.receive_more::<false>(limit).await {
                Received::Bytes(bytes) => bytes,
                _ => 0,
            }
        };
        bounds.read(read).await;
    }
}
