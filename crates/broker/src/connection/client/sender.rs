//! The sending operation of a connection: sends the connection's responses and its session's messages.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{self, Poll, ready};

use phalanx::net::IoTimeout;
use phalanx::shutdown::is_draining;
use phalanx::stage::Pooled;
use phalanx::{Call, CallError, sleep};
use phalanx_mqtt::{Disconnect, Packet, Reason, Version};

use crate::connection::client::Shared;
use crate::context::Context;
use crate::durable::Lsn;
use crate::events::drops::{DropReason, Dropped};
use crate::limits::peer::LINGER;
use crate::session::state::effects::Pulled;

/// A pull of output that is not complete.
enum Pull {
    /// The session is on another processor.
    Call(Call<Pulled>),
    /// The output waits until the changes before it are on disk.
    Fenced(Pin<Box<dyn Future<Output = Pulled>>>),
}

/// Starts the sender of a connection.
pub(in crate::connection) fn start(shared: &Rc<Shared>) {
    let own = shared.clone();
    if shared.context.stages.control.dispatch(move |_| send(own)).is_err() {
        // The processor is full: the client has to reconnect, and takes its session over.
        shared.outbox.close();
    }
}

/// Sends until either side closes the connection. Output that accumulates during a write is sent with the
/// next one.
#[expect(clippy::manual_async_fn, reason = "an `async fn` would contain its arguments twice")]
pub(in crate::connection) fn send(shared: Rc<Shared>) -> impl Future<Output = ()> + 'static {
    async move {
        // The next pull starts after the last write, so that each sends as much as possible.
        let mut pull = None;
        loop {
            // With the number of QoS 0 messages.
            let (bytes, at_most_once) = if !shared.outbox.is_empty() || shared.stream.has_answers()
            {
                (shared.outbox.take(shared.spare.take()), 0)
            } else if shared.outbox.is_closed() {
                break;
            } else if shared.outbox.is_asked_to_stop() && pull.is_none() {
                return shared.outbox.stop();
            } else if shared.outbox.is_disconnected() {
                shared.outbox.filled().await;
                continue;
            } else {
                let mut filled = shared.outbox.filled();
                // By hand: `select` would contain its arguments twice. A pull that is ready is never dropped.
                let pulled = poll_fn(|task| match Pin::new(&mut filled).poll(task) {
                    Poll::Ready(()) => Poll::Ready(None),
                    Poll::Pending => shared.poll_pulled(&mut pull, task).map(Some),
                });
                match pulled.await {
                    None => continue,
                    Some(Ok(Pulled::Output(output))) => output.into_parts(),
                    // The reader ended the session, and has queued a reason if the client did not disconnect
                    // itself.
                    Some(Ok(Pulled::Closed(_)))
                        if shared.outbox.is_closed() || shared.outbox.is_disconnected() =>
                    {
                        continue;
                    }
                    Some(Ok(Pulled::Closed(reason))) => (shared.last(reason), 0),
                    Some(Err(_)) => break,
                }
            };
            if !bytes.is_empty() || shared.stream.has_answers() {
                // Pooled: an idle connection holds no memory for writing.
                match Pooled::pin(shared.write(bytes, at_most_once)).await {
                    Some(memory) => shared.spare.set(memory),
                    None => return,
                }
            }
        }
        // Boxed, so that connections do not reserve memory for their end.
        Box::pin(shared.end_output()).await;
    }
}

impl Shared {
    /// Takes output of the session: directly if the session is on this processor, otherwise by a call. `pull` is what
    /// remains to be awaited.
    fn poll_pulled(
        &self,
        pull: &mut Option<Pull>,
        task: &mut task::Context<'_>,
    ) -> Poll<Result<Pulled, CallError>> {
        let pending = match pull {
            Some(pending) => pending,
            None => {
                let Context { stages, wal, .. } = &*self.context;
                let (of, mut spare) = ((self.key, self.connection_id), self.spare.take());
                match stages.sessions.try_pull(of, &mut spare, task.waker()) {
                    Some(Poll::Pending) => return Poll::Pending,
                    Some(Poll::Ready((pulled, lsn))) if lsn == Lsn::default() => {
                        return Poll::Ready(Ok(pulled));
                    }
                    Some(Poll::Ready(pulled)) => {
                        let fenced = stages.sessions.fenced(of, pulled, wal.clone());
                        pull.insert(Pull::Fenced(Box::pin(fenced)))
                    }
                    None => pull.insert(Pull::Call(stages.sessions.pull(of, spare))),
                }
            }
        };
        let pulled = match pending {
            Pull::Call(call) => ready!(Pin::new(call).poll(task)),
            Pull::Fenced(durable) => Ok(ready!(durable.as_mut().poll(task))),
        };
        *pull = None;
        Poll::Ready(pulled)
    }

    /// Writes output, and returns its memory. `None` if the client is gone; then the connection is closed, and the messages
    /// of QoS 0 in the output are counted as lost.
    async fn write(&self, bytes: Vec<u8>, at_most_once: usize) -> Option<Vec<u8>> {
        self.context.counters.bytes_sent.add(bytes.len() as u64);
        self.peer.listener.bytes_sent.add(bytes.len() as u64);
        let timeout = IoTimeout::after(self.context.config.limits.send);
        let written = self.stream.write(bytes, timeout).await;
        if written.is_err() {
            let what = || Dropped { origin: Some(self.peer.origin), ..Dropped::default() };
            self.context.counters.drops.add(DropReason::ConnectionLost, at_most_once, what);
            self.outbox.close();
            self.stream.shut();
        }
        written.ok()
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

    /// Ends the output, and then the connection.
    async fn end_output(&self) {
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
