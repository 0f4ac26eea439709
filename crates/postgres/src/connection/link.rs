//! The byte stream of a connection. One operation of it receives all the time, so that the end of an idle connection
//! is noticed before a query is sent on it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use phalanx::net::IoTimeout;
use phalanx::sync::Notify;
use phalanx::{SharedStage, timeout};

use super::inbox::{Frame, Inbox};
use super::wire::{self, Wire};
use crate::config::Config;
use crate::error::Fault;

/// A connected byte stream. Dropping it closes the connection.
pub(super) struct Link {
    shared: Rc<Shared>,
    write_timeout: IoTimeout,
}

struct Shared {
    wire: Wire,
    inbox: RefCell<Inbox>,
    /// Why nothing more is received.
    end: RefCell<Option<Fault>>,
    /// Notifies of received bytes, of the end, and of queries that wait for this connection.
    signal: Rc<Notify>,
}

impl Link {
    /// Opens a connection, and starts the operation that receives at `stage`.
    pub(super) async fn open(config: &Config, stage: SharedStage<()>) -> Result<Self, Fault> {
        let Config { query_timeout, max_result_bytes, .. } = config;
        // The handshake is rare, and its future large.
        let wire = Box::pin(wire::open(config)).await?;
        let inbox = RefCell::new(Inbox::new(*max_result_bytes));
        let shared = Shared { wire, inbox, end: RefCell::default(), signal: Rc::default() };
        let shared = Rc::new(shared);
        let receiver = shared.clone();
        let started = stage.dispatch(move |_| async move { receiver.receive().await });
        started.map_err(|rejected| Fault::Io(std::io::Error::other(rejected)))?;
        Ok(Self { shared, write_timeout: IoTimeout::after(*query_timeout) })
    }

    /// The notification of bytes, of the end, and of queries.
    pub(super) fn signal(&self) -> &Rc<Notify> {
        &self.shared.signal
    }

    /// Sends all of `message`.
    pub(super) async fn send(&self, message: BytesMut) -> Result<(), Fault> {
        self.shared.wire.write(Vec::from(message), self.write_timeout).await?;
        Ok(())
    }

    /// Processes the messages that have been received.
    ///
    /// # Errors
    /// The error of `handle`, or how the connection has ended if all messages are processed.
    pub(super) fn process(
        &self,
        handle: impl FnMut(Frame<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.shared.inbox.borrow_mut().process(handle)
    }

    /// Fails if the connection has ended. Its last messages may not be processed yet.
    pub(super) fn check(&self) -> Result<(), Fault> {
        self.shared.end.borrow_mut().take().map_or(Ok(()), Err)
    }

    /// Waits for more messages.
    pub(super) async fn wait(&self, limit: Duration) -> Result<(), Fault> {
        self.check()?;
        let arrived = timeout(limit, self.shared.signal.notified()).await;
        arrived.map_err(|_| Fault::TimedOut(limit))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Ends the receiving operation.
        wire::close(&self.shared.wire);
    }
}

impl Shared {
    async fn receive(&self) {
        let mut bytes = Vec::new();
        let end = loop {
            bytes.clear();
            match self.wire.read(&mut bytes, IoTimeout::NONE).await {
                Ok(0) => break Fault::Closed,
                Ok(_) => {
                    self.inbox.borrow_mut().add(&bytes);
                    self.signal.notify();
                }
                Err(error) => break Fault::Io(error),
            }
        };
        *self.end.borrow_mut() = Some(end);
        self.signal.notify();
    }
}
