//! The sending operation of a connection: sends the connection's responses and its session's messages.

use std::rc::Rc;

use phalanx::metrics::Counter;
use phalanx::net::IoTimeout;
use phalanx::shutdown::is_draining;
use phalanx::stage::Pooled;
use phalanx::task::Either;
use phalanx::{select, sleep};
use phalanx_mqtt::{Disconnect, Packet, Reason, Version};

use crate::limits::peer::{LINGER, Peer};
use crate::model::client_key::ClientKey;
use crate::session::effects::Pulled;
use crate::session::operations::SessionStage;
use crate::transport::Transport;
use crate::transport::outbox::Outbox;

/// The sending side of a connection.
pub(super) struct Sender {
    pub(super) stream: Rc<Transport>,
    pub(super) outbox: Rc<Outbox>,
    pub(super) sessions: SessionStage,
    pub(super) key: ClientKey,
    pub(super) connection_id: u64,
    pub(super) timeout: IoTimeout,
    pub(super) sent: Counter,
    pub(super) peer: Rc<Peer>,
}

impl Sender {
    /// Sends until either side closes the connection. Output that accumulates during a write is sent with the
    /// next one.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` would contain its arguments twice")]
    pub(super) fn run(self) -> impl Future<Output = ()> + 'static {
        async move {
            // The next pull starts after the last write, so that each sends as much as possible.
            let (mut pull, mut spare) = (None, Vec::new());
            let outbox = &self.outbox;
            loop {
                let mut bytes = Vec::new();
                if !outbox.is_empty() || self.stream.has_answers() {
                    bytes = outbox.take(std::mem::take(&mut spare));
                } else if outbox.is_closed() {
                    break;
                } else if outbox.is_disconnected() {
                    outbox.filled().await;
                    continue;
                } else {
                    let asked = pull.get_or_insert_with(|| {
                        let spare = std::mem::take(&mut spare);
                        self.sessions.pull(self.key, self.connection_id, spare)
                    });
                    match select(asked, outbox.filled()).await {
                        Either::Left(Ok(Pulled::Bytes(pulled))) => {
                            pull = None;
                            bytes = pulled;
                        }
                        // The reader ended the session, and has queued a reason if the client did not disconnect
                        // itself.
                        Either::Left(Ok(Pulled::Closed(_)))
                            if outbox.is_closed() || outbox.is_disconnected() =>
                        {
                            pull = None;
                        }
                        Either::Left(Ok(Pulled::Closed(reason))) => bytes = self.last(reason),
                        Either::Left(Err(_)) => break,
                        Either::Right(_) => continue,
                    }
                }
                if !bytes.is_empty() || self.stream.has_answers() {
                    self.sent.add(bytes.len() as u64);
                    self.peer.listener.bytes_sent.add(bytes.len() as u64);
                    // Pooled: an idle connection holds no memory for writing.
                    match Pooled::pin(self.stream.write(bytes, self.timeout)).await {
                        Ok(memory) => spare = memory,
                        Err(_) => {
                            outbox.close();
                            self.stream.shut();
                            return;
                        }
                    }
                }
            }
            // Boxed, so that connections do not reserve memory for their end.
            Box::pin(self.end()).await;
        }
    }

    /// The last output of a session that has ended for this reason.
    fn last(&self, reason: Reason) -> Vec<u8> {
        // DISCONNECT must be last, so pending responses precede it.
        let mut bytes = self.outbox.take(Vec::new());
        self.outbox.set_cause(reason);
        self.outbox.close_with_words();
        if self.outbox.version() == Version::V5 {
            let farewell = Packet::Disconnect(Disconnect::because(reason));
            // The packet is short.
            let _ = farewell.encode(Version::V5, &mut bytes);
        }
        bytes
    }

    async fn end(&self) {
        if self.outbox.lingers() && !is_draining() {
            // Closing a socket with unread input would reset the connection, and the client might lose the last
            // packet.
            self.stream.finish(IoTimeout::after(LINGER)).await;
            sleep(LINGER).await;
        } else if self.stream.is_wrapped() {
            self.stream.finish(IoTimeout::after(LINGER)).await;
        }
        self.outbox.close();
        // The reader sees the end of the stream.
        self.stream.shut();
    }
}
