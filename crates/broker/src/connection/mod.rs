//! The control stage: an operation that is a connection's whole life, as far as it listens. Another one sends
//! (`sender.rs`), since either may have to wait while the other goes on.
//!
//! What has come is taken as a whole: all messages in it are routed together, and answered together.

pub(crate) mod accept;
mod connect;
pub(crate) mod connection_limit;
#[cfg(test)]
mod disconnect_race;
mod handshake;
mod outbox;
pub(crate) mod peer;
mod publishing;
mod rate_limit;
pub(crate) mod refused_logins;
mod sender;
mod subscribing;
mod transport;
mod websocket;

use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use arc_swap::Cache;
use phalanx::net::IoTimeout;
use phalanx::shutdown::is_draining;
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{CallError, select, sleep};
use phalanx_mqtt::{
    Ack, Disconnect, Error, Frame, Kind, Packet, PacketId, Properties, Property, PropertyBuffer,
    Reason, Version,
};

use crate::access::{CachedPolicy, Identity};
use crate::connection::connect::Accepted;
use crate::connection::outbox::Outbox;
use crate::connection::peer::Peer;
use crate::connection::publishing::{Publishing, TAKES_NOTHING};
use crate::connection::rate_limit::RateLimit;
use crate::connection::transport::Transport;
use crate::serve::Context;
use crate::session::RETRY_DELAY;
use crate::session::close::Closing;
use crate::session::key::ClientKey;
use crate::session::outgoing::Answered;

/// A client that was let in.
pub(crate) struct Connection {
    stream: Rc<Transport>,
    context: Context,
    version: Version,
    key: ClientKey,
    connection_id: u64,
    identity: Identity,
    /// What it may do, as of when it was last looked at.
    policy: CachedPolicy,
    outbox: Rc<Outbox>,
    /// How long the client may be silent.
    timeout: IoTimeout,
    publishing: Publishing,
    answers: Vec<Answered>,
    /// Messages of QoS 2 that it lets go of.
    releases: Vec<PacketId>,
    wants_reasons: bool,
    /// How often it may publish, if that is bounded.
    rate_limit: Option<Box<RateLimit>>,
}

/// Why a connection ends.
pub(crate) enum End {
    /// The client has said goodbye: what becomes of its will, and how long its session is to last.
    Disconnected(Closing),
    /// It is gone without a word, or was taken over.
    Lost,
    /// It is to be told why.
    Because(Reason, &'static str),
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Because(error.reason, error.what())
    }
}

impl From<Reason> for End {
    fn from(reason: Reason) -> Self {
        Self::Because(reason, "")
    }
}

/// Serves a client from its CONNECT to its end.
pub(crate) async fn serve(stream: Transport, context: Context, peer: Peer) {
    let mut input = Vec::new();
    // Boxed, as what a connection begins with is not to be held for all its life.
    let accepted = Box::pin(connect::accept_client(stream, &context, &mut input, peer)).await;
    let Some(accepted) = accepted else {
        return;
    };
    let Accepted { stream, version, key, connection_id, durable_id, identity, outbox, .. } =
        accepted;
    let Accepted { keep_alive, wants_reasons, persistent, peer: _peer, .. } = accepted;
    let timeout = match keep_alive {
        0 => IoTimeout::NONE,
        // One and a half times of it is what the standard grants.
        seconds => IoTimeout::after(Duration::from_millis(1500 * u64::from(seconds))),
    };
    let most_aliases = context.config.limits.topic_alias;
    let rate_limit = context.config.limits.message_rate.map(|rate| Box::new(RateLimit::new(rate)));
    let mut connection = Connection {
        stream,
        version,
        key,
        connection_id,
        identity,
        policy: Cache::new(context.access.clone()),
        outbox,
        timeout: timeout.until_shutdown(),
        publishing: Publishing::new(most_aliases, persistent, (key, durable_id)),
        answers: Vec::new(),
        releases: Vec::new(),
        wants_reasons,
        rate_limit,
        context,
    };
    let end = connection.listen(&mut input).await;
    // Boxed likewise, as what it ends with.
    Box::pin(connection.end(end)).await;
}

impl Connection {
    /// Takes what comes, until the end.
    async fn listen(&mut self, input: &mut Vec<u8>) -> End {
        loop {
            let mut taken = 0;
            let result = self.take(input, &mut taken).await;
            // What was gathered before a packet that is wrong was right.
            if let Err(end) = self.flush().await {
                return end;
            }
            if let Err(end) = result {
                return end;
            }
            input.drain(..taken);
            if input.is_empty() && input.capacity() > IDLE_INPUT_BYTES {
                *input = Vec::new();
            }
            self.outbox.room().await;
            if self.rate_limit.is_some() {
                self.wait_for_rate().await;
            }
            if self.outbox.is_closed() {
                return End::Lost;
            }
            match self.stream.read(input, self.timeout).await {
                Ok(bytes @ 1..) => self.context.counters.bytes_received.add(bytes as u64),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Reason::KEEP_ALIVE_TIMEOUT.into();
                }
                Err(_) if is_draining() => return Reason::SERVER_SHUTTING_DOWN.into(),
                _ => return End::Lost,
            }
        }
    }

    /// Waits while the client is ahead of its rate.
    #[cold]
    async fn wait_for_rate(&mut self) {
        while let Some(rate_limit) = &self.rate_limit
            && let wait = rate_limit.wait(now())
            && !wait.is_zero()
            && !self.outbox.is_closed()
            && !is_draining()
        {
            sleep(wait.min(RATE_POLL_INTERVAL)).await;
        }
    }

    /// Takes all whole packets at the front of `input`, and says how many bytes they were.
    async fn take(&mut self, input: &[u8], taken: &mut usize) -> Result<(), End> {
        let most = self.context.config.limits.packet_size;
        while let Some(frame) = Frame::split(&input[*taken..], most)? {
            *taken += frame.length();
            match Packet::decode(frame, self.version)? {
                Packet::Publish(publish) => {
                    let policy = self.policy.load();
                    let drops = &self.context.counters.drops;
                    self.publishing.add(&publish, (policy, &self.identity, drops))?;
                    if self.publishing.is_full() {
                        self.flush().await?;
                    }
                }
                Packet::PubAck(ack) => self.answered(Kind::PubAck, ack),
                Packet::PubRec(ack) => self.answered(Kind::PubRec, ack),
                Packet::PubComp(ack) => self.answered(Kind::PubComp, ack),
                // Behind the messages that it may be one of.
                Packet::PubRel(ack) if self.publishing.is_empty() => self.releases.push(ack.id),
                packet => {
                    self.flush().await?;
                    self.other(packet).await?;
                }
            }
        }
        Ok(())
    }

    fn answered(&mut self, kind: Kind, ack: Ack<'_>) {
        self.answers.push(Answered { kind, id: ack.id, failed: ack.reason.is_failure() });
    }

    /// A packet that is not one of many.
    async fn other(&mut self, packet: Packet<'_>) -> Result<(), End> {
        match packet {
            Packet::PingReq => self.outbox.push(&Packet::PingResp),
            Packet::PubRel(ack) => self.releases.push(ack.id),
            // Boxed, as what is seldom is not to be held by all.
            Packet::Subscribe(subscribe) => Box::pin(self.subscribe(subscribe)).await?,
            Packet::Unsubscribe(unsubscribe) => Box::pin(self.unsubscribe(unsubscribe)).await?,
            Packet::Disconnect(disconnect) => return Err(self.disconnected(disconnect)),
            Packet::Auth(_) => {
                let what = "there is no authentication in several steps here";
                return Err(End::Because(Reason::PROTOCOL_ERROR, what));
            }
            _ => {
                let what = "a second CONNECT, or what only a server says";
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
        if expiry.is_some_and(|seconds| seconds > 0) && !self.publishing.persistent {
            let what = "a session that was to end with its connection cannot be kept";
            return End::Because(Reason::PROTOCOL_ERROR, what);
        }
        let will = disconnect.reason != Reason::SUCCESS;
        End::Disconnected(Closing { will, expiry })
    }

    /// Routes and answers what was gathered.
    async fn flush(&mut self) -> Result<(), End> {
        if !self.releases.is_empty() {
            // Boxed, as what few need is not to be held by all.
            Box::pin(self.release()).await?;
        }
        if !self.publishing.is_empty() {
            self.publish().await?;
        }
        if !self.answers.is_empty() {
            let answers = std::mem::take(&mut self.answers);
            let told = self.context.stages.sessions.answered(self.key, self.connection_id, answers);
            told.await.map_err(|_| Reason::SERVER_BUSY)?;
        }
        Ok(())
    }

    /// Lets go of messages of QoS 2.
    async fn release(&mut self) -> Result<(), End> {
        let ids = std::mem::take(&mut self.releases);
        let sessions = self.context.stages.sessions;
        let known = match sessions.release(self.key, self.connection_id, ids.clone()).await {
            Ok(Some(known)) => known,
            Ok(None) => return Err(TAKES_NOTHING),
            Err(_) => return Err(Reason::SERVER_BUSY.into()),
        };
        for (id, is_known) in ids.into_iter().zip(known) {
            let reason = match is_known {
                true => Reason::SUCCESS,
                false => Reason::PACKET_IDENTIFIER_NOT_FOUND,
            };
            self.outbox.push(&Packet::PubComp(Ack { reason, ..Ack::of(id) }));
        }
        Ok(())
    }

    /// The connection is over: says why, and leaves the session.
    async fn end(self, end: End) {
        let is_disconnect = matches!(end, End::Disconnected(_));
        let closing = match end {
            End::Disconnected(closing) => closing,
            End::Lost => Closing { will: true, expiry: None },
            End::Because(reason, what) => {
                if self.version == Version::V5 {
                    let mut properties = PropertyBuffer::new();
                    if self.wants_reasons && !what.is_empty() {
                        // It is short.
                        let _ = properties.push(Property::ReasonString(what));
                    }
                    let properties = properties.get();
                    self.outbox.push(&Packet::Disconnect(Disconnect { reason, properties }));
                    self.outbox.close_with_words();
                }
                Closing { will: true, expiry: None }
            }
        };
        let Context { stages, counters, .. } = self.context;
        counters.connected.add(-1);
        let mut left = pin!(async {
            loop {
                let close =
                    stages.sessions.close(self.key, self.connection_id, closing, stages.routing);
                match close.await {
                    // There is room for nothing. A session that is not left would be nobody's.
                    Err(CallError::Full { .. }) => sleep(RETRY_DELAY).await,
                    _ => return,
                }
            }
        });
        if is_disconnect {
            // Who waits until its connection is closed may be back at once, on another processor: it is not to find its session
            // before its goodbye has, which would have its will published. For a will that it asks for it does not wait long.
            self.outbox.disconnect();
            if let Either::Left(()) = select(left.as_mut(), sleep(DISCONNECT_TIMEOUT)).await {
                return self.outbox.close();
            }
        }
        self.outbox.close();
        left.await;
    }

    /// Properties with a reason in words, if the client wants one and there is one.
    fn reason<'b>(&self, buffer: &'b mut PropertyBuffer, what: &str) -> Properties<'b> {
        if self.wants_reasons && !what.is_empty() {
            // It is short.
            let _ = buffer.push(Property::ReasonString(what));
        }
        buffer.get()
    }
}

/// Who has said goodbye waits for no longer until its connection is closed.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Who waits for its rate looks after so long whether there is anything to wait for.
const RATE_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Memory that an idle connection keeps for its input.
const IDLE_INPUT_BYTES: usize = 4096;
