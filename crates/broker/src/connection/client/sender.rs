//! The sending operation of a connection: sends the connection's responses and the session's messages.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{self, Poll, ready};

use phalanx::net::IoTimeout;
use phalanx::shutdown::is_draining;
use phalanx::stage::Pooled;
use phalanx::{Call, CallError, sleep};
use phalanx_mqtt::{Disconnect, Packet, Reason, Version};

use crate::connection::client::Shared;
use crate::connection::end::in_disconnect;
use crate::context::Context;
use crate::durable::Lsn;
use crate::events::drops::{DropReason, Dropped};
use crate::limits::peer::LINGER_TIME;
use crate::model::waiting_sender::WaitingSender;
use crate::session::state::effects::Pulled;
use crate::transport::outbox::Cause;

/// Number of bytes that a client has to read within the send timeout. Longer output gets proportionally more time.
const BYTES_PER_TIMEOUT: usize = 256 * 1024;

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
        // The processor is full. The client has to reconnect, and then takes its session over.
        shared.outbox.close();
    }
}

/// Sends until either side closes the connection. Output that accumulates during a write is sent with the
/// next one.
#[expect(clippy::manual_async_fn, reason = "an `async fn` would contain its arguments twice")]
pub(in crate::connection) fn send(shared: Rc<Shared>) -> impl Future<Output = ()> + 'static {
    async move {
        // The next pull starts after the last write has ended, so that each write is as large as possible.
        let (mut pull, mut is_due) = (None, false);
        loop {
            // Alternate between responses and messages, so that a client that constantly causes responses also gets its
            // messages.
            let alternates = std::mem::take(&mut is_due) && shared.outbox.may_alternate();
            let has_responses = !shared.outbox.is_empty() || shared.stream.has_own_packets();
            // The bytes to write, and the number of QoS 0 messages in them.
            let (bytes, at_most_once) = if has_responses && !alternates {
                is_due = true;
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
                // Not `select`, which would contain its arguments twice. A ready pull is never dropped.
                let pulled = poll_fn(|task| {
                    if !alternates && Pin::new(&mut filled).poll(task).is_ready() {
                        return Poll::Ready(None);
                    }
                    if shared.outbox.is_session_held() {
                        return Poll::Pending;
                    }
                    match shared.poll_pulled(&mut pull, task) {
                        Poll::Pending if alternates => Poll::Ready(None),
                        pulled => pulled.map(Some),
                    }
                });
                match pulled.await {
                    None => continue,
                    Some(Ok(Pulled::Output(output))) => {
                        let (bytes, at_most_once) = output.into_parts();
                        // Empty if the pull was interrupted.
                        if !bytes.is_empty() {
                            shared.outbox.set_received();
                        }
                        (bytes, at_most_once)
                    }
                    // The reader has detached the session. It has already queued a reason unless the client sent
                    // DISCONNECT.
                    Some(Ok(Pulled::Closed(_)))
                        if shared.outbox.is_closed() || shared.outbox.is_disconnected() =>
                    {
                        continue;
                    }
                    Some(Ok(Pulled::Closed(reason))) => (shared.last(reason), 0),
                    Some(Err(_)) => break,
                }
            };
            if !bytes.is_empty() || shared.stream.has_own_packets() {
                // Pooled, so that an idle connection holds no memory for writing.
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
    /// Takes output of the session: directly if the session is on this processor, otherwise by a call. `pull` holds the
    /// part that has to be awaited.
    fn poll_pulled(
        self: &Rc<Self>,
        pull: &mut Option<Pull>,
        task: &mut task::Context<'_>,
    ) -> Poll<Result<Pulled, CallError>> {
        let pending = match pull {
            Some(pending) => pending,
            None => {
                let Context { stages, wal, .. } = &*self.context;
                let (connection, mut spare) = ((self.key, self.connection_id), self.spare.take());
                let own = || -> Weak<dyn WaitingSender> { Rc::downgrade(self) as _ };
                match stages.sessions.try_pull(connection, &mut spare, task.waker(), &own) {
                    Some(Poll::Pending) => return Poll::Pending,
                    Some(Poll::Ready((pulled, lsn))) if lsn == Lsn::default() => {
                        return Poll::Ready(Ok(pulled));
                    }
                    Some(Poll::Ready(pulled)) => {
                        let fenced = stages.sessions.fenced(connection, pulled, wal.clone());
                        pull.insert(Pull::Fenced(Box::pin(fenced)))
                    }
                    None => pull.insert(Pull::Call(stages.sessions.pull(connection, spare))),
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

    /// Writes output, and returns its buffer. If the client is gone, closes the connection, counts the QoS 0 messages in
    /// the output as lost, and returns `None`.
    async fn write(&self, bytes: Vec<u8>, at_most_once: usize) -> Option<Vec<u8>> {
        self.context.counters.bytes_sent.add(bytes.len() as u64);
        self.peer.listener.bytes_sent.add(bytes.len() as u64);
        let times = bytes.len().div_ceil(BYTES_PER_TIMEOUT).max(1);
        let limit = self.context.config.limits.send.saturating_mul(times as u32);
        let written = self.stream.write(bytes, IoTimeout::after(limit)).await;
        if let Err(error) = &written {
            let is_slow = error.kind() == ErrorKind::TimedOut;
            if is_slow {
                self.outbox.set_cause(Cause::SendTimeout);
            }
            let what = || Dropped { origin: Some(self.peer.origin), ..Dropped::default() };
            self.context.counters.drops.add(DropReason::ConnectionLost, at_most_once, what);
            self.outbox.close();
            // The kernel would keep the output of a client that does not read.
            if is_slow { self.stream.reset() } else { self.stream.shut() }
        }
        written.ok()
    }

    /// The last output of a session that has ended for this reason.
    fn last(&self, reason: Reason) -> Vec<u8> {
        let reason = in_disconnect(reason);
        // DISCONNECT must be the last packet, so pending responses precede it.
        let mut bytes = self.outbox.take(Vec::new());
        self.outbox.set_cause(Cause::Session(reason));
        self.outbox.close_with_words();
        if self.outbox.version() == Version::V5 {
            let farewell = Packet::Disconnect(Disconnect::new(reason));
            // Cannot fail: the packet is short.
            let _ = farewell.encode(Version::V5, &mut bytes);
        }
        bytes
    }

    /// Ends the output, then closes the connection.
    async fn end_output(&self) {
        if self.outbox.lingers() && !is_draining() {
            // Closing a socket with unread input would reset the connection, and the client might lose the last
            // packet.
            self.stream.finish(IoTimeout::after(LINGER_TIME)).await;
            sleep(LINGER_TIME).await;
        } else if self.stream.is_wrapped() {
            self.stream.finish(IoTimeout::after(LINGER_TIME)).await;
        }
        self.outbox.close();
        // The reader sees the end of the stream.
        self.stream.shut();
    }
}

impl WaitingSender for Shared {
    fn send_now(&self, bytes: &[u8]) -> bool {
        let stream = self.stream.plain().filter(|_| self.outbox.is_idle());
        // The sender sees the error.
        let sent = stream.and_then(|stream| stream.send_now(bytes).ok()).unwrap_or(0);
        if sent == 0 {
            return false;
        }
        self.outbox.set_received();
        self.context.counters.bytes_sent.add(sent as u64);
        self.peer.listener.bytes_sent.add(sent as u64);
        if sent < bytes.len() {
            // Sent before any response or message, which must not split the packet.
            self.outbox.push_rest(&bytes[sent..]);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::time::Duration;

    use phalanx::Graph;
    use phalanx::sim::{self, Faults};
    use phalanx_tls::Wire;

    use super::*;
    use crate::events::Origin;
    use crate::limits::peer::Peer;
    use crate::model::client_key::ClientKey;
    use crate::transport::Transport;
    use crate::transport::outbox::Outbox;
    use crate::wire::address;
    use crate::{Broker, Config};

    /// The size of a long output.
    const BYTES: usize = 1 << 20;

    /// Writes to a client that reads 4 KiB in each interval. Returns whether everything was written, and why the
    /// connection ended if it did.
    fn written(pause: Duration) -> (bool, Option<Cause>) {
        let result = Rc::new(RefCell::new(None));
        let of_world = result.clone();
        sim::run(0, move |world| {
            world.set_faults(Faults::NONE);
            world.set_processors(1);
            let mut config = Config::new();
            (config.runtime.workers, config.limits.send) = (1, Duration::from_secs(10));
            let mut graph = Graph::new();
            let broker = Broker::declare(&mut graph, &config);
            let (listeners, net) = (world.listen(address()), world.net());
            world.program(graph, move |start| {
                let (listener, context) = (listeners.listener(start)?, broker.context().clone());
                let (result, stage) = (of_world.clone(), context.stages.control);
                stage.dispatch(move |_| async move {
                    let wire = Wire::accepted(listener.accept().await.unwrap());
                    let metrics = context.counters.listeners.of(context.config.listen[0]);
                    let origin = Origin { address: None, listen: metrics.listen };
                    let shared = Shared {
                        stream: Rc::new(Transport::Wire(wire)),
                        context: Rc::new(context),
                        outbox: Rc::new(Outbox::new(Version::V5, 100)),
                        peer: Peer::of_bridge(origin, metrics),
                        key: ClientKey { partition: 0, slot: 0, generation: 0 },
                        connection_id: 0,
                        spare: Cell::default(),
                    };
                    let is_written = shared.write(vec![7; BYTES], 0).await.is_some();
                    result.replace(Some((is_written, shared.outbox.cause())));
                })?;
                Ok(())
            });
            world.client(async move {
                let (mut client, mut all) = (net.connect(address()).await.unwrap(), Vec::new());
                while all.len() < BYTES {
                    net.sleep(pause).await;
                    if client.read(&mut all).await.unwrap_or(0) == 0 {
                        break;
                    }
                }
            });
        });
        result.take().expect("the write ends")
    }

    #[test]
    fn a_client_that_reads_slowly_stays_connected() {
        // The client reads 256 KiB in six seconds, and has ten for each of four such parts.
        assert!(matches!(written(Duration::from_millis(100)), (true, None)));
        assert!(matches!(written(Duration::from_secs(60)), (false, Some(Cause::SendTimeout))));
    }
}
