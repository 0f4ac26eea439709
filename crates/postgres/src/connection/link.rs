//! The byte stream of a connection. One operation of it receives all the time, so that the end of an idle connection
//! is noticed before a query is sent on it.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use phalanx::net::IoTimeout;
use phalanx::sync::Notify;
use phalanx::task::Either;
use phalanx::{SharedStage, select, timeout};

use super::inbox::{Frame, Inbox};
use super::wire::{self, Wire};
use crate::config::Config;
use crate::error::Fault;

/// Maximum number of bytes in one write. The end of each write is progress, after which a limit of time starts again.
const MAX_WRITE: usize = 64 << 10;

/// The limit on waiting for the server's last messages after a failed write.
const FINAL_MESSAGES_TIMEOUT: Duration = Duration::from_secs(1);

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
    /// Notifies of received bytes, of sent ones, of the end, and of queries that wait for this connection.
    signal: Rc<Notify>,
    /// Notifies of messages that were processed while the inbox was full, and of the end of the link.
    room: Notify,
    /// The link was dropped.
    is_dropped: Cell<bool>,
}

impl Link {
    /// Opens a connection, and starts the operation that receives at `stage`.
    pub(super) async fn open(config: &Config, stage: SharedStage<()>) -> Result<Self, Fault> {
        let Config { query_timeout, max_result_bytes, .. } = config;
        // The handshake is rare, and its future large.
        let wire = Box::pin(wire::open(config)).await?;
        let inbox = RefCell::new(Inbox::new(*max_result_bytes));
        let (end, signal, room, is_dropped) = Default::default();
        let shared = Rc::new(Shared { wire, inbox, end, signal, room, is_dropped });
        let receiver = shared.clone();
        let started = stage.dispatch(move |_| async move { receiver.receive().await });
        started.map_err(|rejected| Fault::Io(std::io::Error::other(rejected)))?;
        Ok(Self { shared, write_timeout: IoTimeout::after(*query_timeout) })
    }

    /// The notification of bytes, of the end, and of queries.
    pub(super) fn signal(&self) -> &Rc<Notify> {
        &self.shared.signal
    }

    /// Sends all of a short message.
    pub(super) async fn send(&self, message: BytesMut) -> Result<(), Fault> {
        self.shared.wire.write(Vec::from(message), self.write_timeout).await?;
        Ok(())
    }

    /// Sends all of `message`, and meanwhile calls `process` at each progress, until that returns true. So a server that
    /// waits until its answers are read does not wait forever.
    ///
    /// # Errors
    /// The error of `process`, how the connection has ended, or that there was no progress for `limit`.
    pub(super) async fn exchange(
        &self,
        message: BytesMut,
        mut limit: Duration,
        mut process: impl FnMut(&Self) -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        let mut sending = pin!(self.send_in_parts(message));
        let (mut is_sent, mut is_over, mut failed) = (false, false, None);
        loop {
            is_over = is_over || process(self)?;
            if is_sent && is_over {
                return Ok(());
            } else if is_sent {
                match (self.wait(limit).await, failed.take()) {
                    // The server has said nothing more.
                    (Err(Fault::TimedOut(_)), Some(fault)) => return Err(fault),
                    (waited, fault) => {
                        waited?;
                        failed = fault;
                    }
                }
                continue;
            }
            match select(sending.as_mut(), self.wait(limit)).await {
                Either::Left(sent) => {
                    is_sent = true;
                    if let Err(fault) = sent {
                        // The server has probably said why it ended the connection.
                        (limit, failed) = (FINAL_MESSAGES_TIMEOUT, Some(fault));
                    }
                }
                Either::Right(waited) => waited?,
            }
        }
    }

    async fn send_in_parts(&self, mut message: BytesMut) -> Result<(), Fault> {
        while message.len() > MAX_WRITE {
            let part = message.split_to(MAX_WRITE);
            self.shared.wire.write(Vec::from(part), IoTimeout::NONE).await?;
            self.shared.signal.notify();
        }
        self.shared.wire.write(Vec::from(message), IoTimeout::NONE).await?;
        Ok(())
    }

    /// Processes the messages that have been received.
    ///
    /// # Errors
    /// That of `handle`, or of a message that makes no sense.
    pub(super) fn process(
        &self,
        handle: impl FnMut(Frame<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let processed = self.shared.inbox.borrow_mut().process(handle);
        self.shared.room.notify();
        processed
    }

    /// Fails if the connection has ended. Its last messages may not be processed yet.
    pub(super) fn check(&self) -> Result<(), Fault> {
        self.shared.end.borrow_mut().take().map_or(Ok(()), Err)
    }

    /// Waits for more messages.
    pub(super) async fn wait(&self, limit: Duration) -> Result<(), Fault> {
        self.check()?;
        let notified = timeout(limit, self.shared.signal.notified()).await;
        notified.map_err(|_| Fault::TimedOut(limit))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Ends the receiving operation. The kernel may have many bytes that it has not read.
        self.shared.is_dropped.set(true);
        wire::close(&self.shared.wire);
        *self.shared.inbox.borrow_mut() = Inbox::new(0);
        self.shared.room.notify();
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
                    while self.inbox.borrow().is_full() && !self.is_dropped.get() {
                        self.room.notified().await;
                    }
                    if self.is_dropped.get() {
                        return;
                    }
                }
                Err(error) => break Fault::Io(error),
            }
        };
        *self.end.borrow_mut() = Some(end);
        self.signal.notify();
    }
}
