//! The reading operation of a connection, from CONNECT to the end.
//!
//! All packets of one read are processed together: their messages are routed and acknowledged as one batch.

use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::shutdown::is_draining;
use phalanx::stage::Pooled;
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{select, sleep};
use phalanx_mqtt::{
    Ack, Disconnect, Frame, Kind, Packet, Property, PropertyBuffer, Reason, Version,
};

use crate::access::permissions::Verdict;
use crate::connection::batch::gather::Publishing;
use crate::connection::batch::{Batch, SpareBatch};
use crate::connection::client::{Client, Connection, Reauthentication, Shared};
use crate::connection::connect::{Accepted, accept_client};
use crate::connection::end::{End, NOT_STORED, in_disconnect};
use crate::connection::logging;
use crate::context::Context;
use crate::limits::peer::Peer;
use crate::limits::rate_limit::RateLimit;
use crate::session::partition::close::Closing;
use crate::transport::Transport;

/// Serves a client from CONNECT to the end of the connection.
pub(crate) fn serve(
    stream: Transport,
    context: Rc<Context>,
    peer: Peer,
) -> impl Future<Output = ()> + 'static {
    // Boxed, so that the state of CONNECT is freed before the connection is served.
    let accepting = Box::pin(async move {
        let mut input = Vec::new();
        let accepted = accept_client(stream, &context, &mut input, peer).await?;
        let rate = context.config.limits.message_rate;
        let rate_limit = rate.map(|rate| Box::new(RateLimit::new(rate)));
        Some(connection(accepted, rate_limit, input))
    });
    async move {
        if let Some(connection) = accepting.await {
            serve_accepted(connection).await;
        }
    }
}

/// The connection of an accepted client. `input` was already received. Boxed, because an operation would reserve memory
/// for it several times.
pub(super) fn connection(
    accepted: Accepted,
    rate_limit: Option<Box<RateLimit>>,
    mut input: Vec<u8>,
) -> Box<Connection> {
    let Accepted { shared, version, durable_id, identity, .. } = accepted;
    let Accepted { keep_alive, wants_reasons, persistent, mechanism, .. } = accepted;
    // Most of the memory for CONNECT is freed.
    input.shrink_to_fit();
    let timeout = match keep_alive {
        0 => IoTimeout::NONE,
        // The standard allows one and a half times the keep-alive (§3.1.2.10).
        seconds => IoTimeout::after(Duration::from_millis(1500 * u64::from(seconds))),
    };
    let most_aliases = shared.context.config.limits.topic_alias;
    let mut publishing = Publishing::new(most_aliases, persistent, (shared.key, durable_id));
    publishing.sends_again = shared.stream.sends_again();
    let client = Client {
        version,
        identity,
        timeout: timeout.until_shutdown(),
        input,
        publishing,
        wants_reasons,
        reauthentication: mechanism.map(Reauthentication::new).map(Box::new),
        since: now(),
        stays_until: Duration::ZERO,
        rate_limit,
    };
    Connection::new(shared, client)
}

/// Serves an accepted client to the end of the connection.
#[expect(clippy::manual_async_fn, reason = "an `async fn` would contain its arguments twice")]
pub(super) fn serve_accepted(
    mut connection: Box<Connection>,
) -> impl Future<Output = ()> + 'static {
    async move {
        let end = loop {
            match connection.listen().await {
                // Boxed, because it is rare.
                End::Leaving => match Box::pin(connection.leave()).await {
                    Some(stays) => connection = stays,
                    None => return,
                },
                end => break end,
            }
        };
        // Boxed, so that connections do not reserve memory for their end.
        Box::pin(connection.end(end)).await;
    }
}

impl Connection {
    /// Reads and processes packets until the connection ends.
    async fn listen(&mut self) -> End {
        // A connection that could not move has to read before it tries again.
        let mut has_read = false;
        loop {
            // Pooled, so that an idle connection holds no memory for processing input.
            if let Err(end) = Pooled::pin(self.turn()).await {
                return end;
            }
            if has_read && self.should_leave() {
                return End::Leaving;
            }
            has_read = true;
            // Called directly, because each async function in between would store the arguments again.
            let read = match self.shared.stream.plain() {
                Some(stream) => stream.read(&mut self.client.input, self.client.timeout).await,
                // Boxed, because it is rare.
                None if self.client.publishing.owes_since.is_some() => {
                    match Box::pin(self.read_until_room()).await {
                        Ok(read) => read,
                        Err(end) => return end,
                    }
                }
                None => {
                    Pooled::pin(
                        self.shared.stream.read(&mut self.client.input, self.client.timeout),
                    )
                    .await
                }
            };
            match read {
                Ok(bytes @ 1..) => {
                    self.context.counters.bytes_received.add(bytes as u64);
                    self.peer.listener.bytes_received.add(bytes as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Reason::KEEP_ALIVE_TIMEOUT.into();
                }
                Err(_) if is_draining() => return Reason::SERVER_SHUTTING_DOWN.into(),
                _ => return End::Lost,
            }
        }
    }

    /// Whether another processor should serve the connection. A client that receives messages uses its own session, and
    /// one that only publishes uses those of its receivers.
    fn should_leave(&self) -> bool {
        if self.client.stays_until > now() {
            return false;
        }
        let near = match self.outbox.has_received() {
            true => Some(self.key.partition.into()),
            false => self.client.publishing.receivers_at(),
        };
        self.stream.should_move(near)
    }

    /// Reads, but ends the connection when the journal has space again, so that the client retransmits the messages that
    /// were not stored.
    async fn read_until_room(&mut self) -> Result<io::Result<usize>, End> {
        let Self { shared, client, .. } = self;
        let since = client.publishing.owes_since.unwrap_or_default();
        let mut read = pin!(shared.stream.read(&mut client.input, client.timeout));
        loop {
            let left = ROOM_POLL_INTERVAL.saturating_sub(now() - since);
            if left.is_zero() && !shared.context.wal.is_full() {
                return Err(NOT_STORED);
            }
            let wait = if left.is_zero() { ROOM_POLL_INTERVAL } else { left };
            if let Either::Left(read) = select(read.as_mut(), sleep(wait)).await {
                return Ok(read);
            }
        }
    }

    /// Processes the received packets, and waits until the connection may read more.
    async fn turn(&mut self) -> Result<(), End> {
        let (mut input, mut taken) = (std::mem::take(&mut self.client.input), 0);
        self.process(&input, &mut taken).await?;
        input.drain(..taken);
        if !input.is_empty() || input.capacity() <= IDLE_INPUT_BYTES {
            self.client.input = input;
        }
        // A lane does not wait, because two nodes could wait for each other forever. Its responses are bounded, because
        // the number of unacknowledged messages is.
        if !self.stream.is_lane() {
            self.outbox.wait_for_capacity().await;
        }
        if self.client.rate_limit.is_some() {
            self.wait_for_rate().await;
        }
        if self.outbox.is_closed() { Err(End::Lost) } else { Ok(()) }
    }

    /// Waits until the client is within its rate limit.
    #[cold]
    async fn wait_for_rate(&mut self) {
        while let Some(rate_limit) = &self.client.rate_limit
            && let wait = rate_limit.wait(now())
            && !wait.is_zero()
            && !self.outbox.is_closed()
            && !is_draining()
            // If the client has closed the connection, the rest of its input is processed without delay, so that its will
            // is on time.
            && !self.stream.is_closed_by_peer()
        {
            sleep(wait.min(RATE_POLL_INTERVAL)).await;
        }
    }

    /// Processes all complete packets at the front of `input`, and adds their length to `taken`.
    async fn process(&mut self, input: &[u8], taken: &mut usize) -> Result<(), End> {
        let mut batch = SpareBatch::take();
        let result = self.take(input, taken, &mut batch).await;
        // Packets before an invalid one are processed.
        self.flush(&mut batch).await.and(result)
    }

    /// Like [`process`](Self::process), but leaves the last batch unflushed.
    async fn take(
        &mut self,
        input: &[u8],
        taken: &mut usize,
        batch: &mut Batch,
    ) -> Result<(), End> {
        let most = self.context.config.limits.packet_size;
        while let Some(frame) = Frame::split(&input[*taken..], most)? {
            *taken += frame.length();
            if let Some(id) = frame.plain_puback() {
                batch.add_answer(Kind::PubAck, Ack::success(id));
                continue;
            }
            match Packet::decode(frame, self.client.version)? {
                Packet::Publish(publish) => {
                    let mut verdict = Verdict::Allowed;
                    if self.policy.load().permissions(&self.client.identity).is_some() {
                        // Boxed, because few brokers have a service.
                        verdict = Box::pin(self.permission(&publish, batch)).await?;
                    }
                    let Shared { context, peer, .. } = &*self.shared;
                    let (policy, drops) = (self.policy.load(), &context.counters.drops);
                    let of_client = (&**policy, &self.client.identity, peer.origin, drops);
                    self.client.publishing.add(batch, &publish, of_client, verdict)?;
                    if self.client.publishing.is_full(batch) {
                        self.flush(batch).await?;
                    }
                }
                Packet::PubAck(ack) => batch.add_answer(Kind::PubAck, ack),
                Packet::PubRec(ack) => batch.add_answer(Kind::PubRec, ack),
                Packet::PubComp(ack) => batch.add_answer(Kind::PubComp, ack),
                // PUBREL has to follow the batched messages, which may include the one that it releases.
                Packet::PubRel(ack) if batch.is_empty() => batch.releases.push(ack.id),
                packet => {
                    self.flush(batch).await?;
                    self.other(packet, batch).await?;
                }
            }
        }
        Ok(())
    }

    /// Processes a packet that is not batched, after the batch.
    async fn other(&mut self, packet: Packet<'_>, batch: &mut Batch) -> Result<(), End> {
        match packet {
            Packet::PingReq => self.outbox.push(&Packet::PingResp),
            Packet::PubRel(ack) => batch.releases.push(ack.id),
            // Boxed, because it is rare: connections reserve no memory for it.
            Packet::Subscribe(subscribe) => Box::pin(self.subscribe(subscribe)).await?,
            Packet::Unsubscribe(unsubscribe) => Box::pin(self.unsubscribe(unsubscribe)).await?,
            Packet::Disconnect(disconnect) => return Err(self.disconnected(disconnect)),
            Packet::Auth(auth) => self.authenticate_again(&auth)?,
            _ => {
                let what = "a second CONNECT, or a packet that only servers send";
                return Err(End::Because(Reason::PROTOCOL_ERROR, what));
            }
        }
        Ok(())
    }

    fn disconnected(&self, disconnect: Disconnect<'_>) -> End {
        let mut expiry = None;
        for property in disconnect.properties {
            if let Property::SessionExpiry(seconds) = property {
                expiry = Some(seconds.min(self.context.config.limits.session_expiry));
            }
        }
        if expiry.is_some_and(|seconds| seconds > 0) && !self.client.publishing.persistent {
            let what = "a session that ends with its connection cannot be made persistent";
            return End::Because(Reason::PROTOCOL_ERROR, what);
        }
        let will = disconnect.reason != Reason::SUCCESS;
        End::Disconnected(Closing { will, expiry })
    }

    /// Ends the connection: sends the reason, and detaches the session.
    async fn end(self, end: End) {
        let end = match end {
            End::Because(reason, what) => End::Because(in_disconnect(reason), what),
            end => end,
        };
        let (names, cause) = ((&self.client.identity, &self.peer.origin), self.outbox.cause());
        logging::disconnected(self.context.events(), names, (&end, cause), self.client.since);
        let is_disconnect = matches!(end, End::Disconnected(_));
        let closing = match end {
            End::Disconnected(closing) => closing,
            End::Lost | End::Leaving => Closing { will: true, expiry: None },
            End::Because(reason, what) => {
                if self.client.version == Version::V5 {
                    let mut buffer = PropertyBuffer::new();
                    let properties = self.reason(&mut buffer, what);
                    self.outbox.push(&Packet::Disconnect(Disconnect { reason, properties }));
                    self.outbox.close_with_words();
                }
                Closing { will: true, expiry: None }
            }
        };
        let Context { stages, counters, .. } = &*self.context;
        counters.connected.add(-1);
        self.peer.listener.connections.add(-1);
        let mut left = pin!(stages.close((self.key, self.connection_id), closing));
        if is_disconnect {
            // A client may reconnect on another processor as soon as its connection is closed. The session has to process
            // DISCONNECT first; otherwise the client's will would be published. The wait is limited, because closing the
            // session may wait for a will.
            self.outbox.disconnect();
            if let Either::Left(()) = select(left.as_mut(), sleep(DISCONNECT_TIMEOUT)).await {
                return self.outbox.close();
            }
        }
        self.outbox.close();
        left.await;
    }
}

/// Maximum time from DISCONNECT until the connection is closed.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval at which a rate-limited connection checks for shutdown and disconnection.
const RATE_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Interval at which a connection checks for space in the journal, and the minimum time for which it stays open after a
/// message that was not stored. Without the minimum, a nearly full journal would end connections repeatedly.
const ROOM_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum size of the input buffer that an idle connection keeps, in bytes.
const IDLE_INPUT_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::client::sender::send;

    /// The slab's smallest class.
    const SLOT: usize = 128;

    fn reader<A, B, C, F>(_: impl Fn(A, B, C) -> F) -> usize {
        size_of::<F>()
    }

    fn sender<A, F>(_: impl Fn(A) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_idle_connection_has_small_operations() {
        let bytes = (reader(serve), sender(send));
        assert!(bytes.0 <= SLOT && bytes.1 <= SLOT, "{bytes:?} bytes");
    }
}
