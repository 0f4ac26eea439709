//! Moves connections to another processor: to the one with the sessions that they use, or because their own is inactive or
//! has too many connections.
//!
//! 1. When the reader has processed all complete packets, it asks the sender to stop. The sender first sends everything.
//!    A pull in progress is interrupted, so that no output of the session is lost with it.
//! 2. The reader offers the socket with the state of the connection. The session identifies the connection by its number,
//!    so it does not change.
//! 3. The other processor accepts the socket, takes the state, and starts a sender and a reader.
//!
//! If bytes have arrived meanwhile, the connection stays, and the sender is restarted.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::net::Stream;
use phalanx::runtime::processor;
use phalanx::time::now;
use phalanx::{select, sleep};
use phalanx_mqtt::Reason;
use phalanx_service::ListenAddress;
use phalanx_tls::Wire;

use crate::config::Config;
use crate::connection::client::{Client, Connection, Shared, sender};
use crate::connection::end::End;
use crate::connection::logging;
use crate::context::Context;
use crate::context::stages::Stages;
use crate::counters::Counters;
use crate::events::Origin;
use crate::limits::peer::Peer;
use crate::model::client_key::ClientKey;
use crate::session::partition::close::Closing;
use crate::transport::Transport;
use crate::transport::outbox::Outbox;

/// Maximum time for the sender to stop.
const STOP_LIMIT: Duration = Duration::from_millis(100);
/// The time between two attempts to move a connection. Each interrupts the sender.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// The same if the sender has not stopped: the reader waits for [`STOP_LIMIT`] in each attempt.
const SLOW_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The state of a connection on its way to another processor. If it does not arrive, the session is detached.
pub(crate) struct Moving(Option<State>);

struct State {
    client: Client,
    key: ClientKey,
    connection_id: u64,
    peer: Peer,
    /// Maximum packet size of the client, in bytes.
    most: usize,
    /// Whether the session has sent messages on this connection.
    has_received: bool,
    /// The settings in force when the connection was accepted.
    config: Arc<Config>,
    listener: Option<ListenAddress>,
    stages: Stages,
    counters: Arc<Counters>,
}

impl Connection {
    /// Moves the connection. Returns it if it stays.
    pub(in crate::connection) async fn leave(self: Box<Self>) -> Option<Box<Self>> {
        self.outbox.ask_to_stop();
        let sessions = self.context.stages.sessions;
        // If the stage is full, the sender may wait for a message, and the connection stays.
        let interrupted = sessions.interrupt(self.key, self.connection_id).await;
        if interrupted.is_ok() {
            // Limited, because the client may not be reading.
            select(pin!(self.outbox.stopped()), sleep(STOP_LIMIT)).await;
        }
        let (stream, has_stopped) = (self.stream.clone(), self.outbox.has_stopped());
        let mut connection = Some(self);
        let take = || Moving::new(*connection.take().expect("called once"));
        if has_stopped && stream.offer_with(take) {
            return None;
        }
        let mut connection = connection.expect("it has not moved");
        let pause = if has_stopped { RETRY_INTERVAL } else { SLOW_RETRY_INTERVAL };
        connection.client.stays_until = now() + pause;
        if connection.outbox.go_on() {
            sender::start(&connection.shared);
        }
        Some(connection)
    }
}

impl Moving {
    fn new(connection: Connection) -> Self {
        let Connection { shared, client, .. } = connection;
        let shared = Rc::into_inner(shared).expect("the sender has stopped");
        let Shared { context, outbox, peer, key, connection_id, .. } = shared;
        Self(Some(State {
            client,
            key,
            connection_id,
            peer,
            most: outbox.most(),
            has_received: outbox.has_received(),
            config: context.config.clone(),
            listener: context.listener,
            stages: context.stages,
            counters: context.counters.clone(),
        }))
    }

    /// Takes the state of a connection that another processor has served. Returns the stream of a new connection
    /// unchanged.
    pub(in crate::connection) fn arrived(stream: Stream) -> Result<(Self, Wire), Stream> {
        if !stream.has_moved() {
            return Err(stream);
        }
        let mut wire = Wire::accepted(stream);
        let moving = wire.take_state().expect("connections move with their state");
        Ok((moving, wire))
    }

    /// The client's address, and the address at which the connection was accepted.
    pub(in crate::connection) fn origin(&self) -> Origin {
        self.0.as_ref().expect("it arrives once").peer.origin
    }

    /// Creates the connection on this processor, with a new sender.
    pub(in crate::connection) fn arrive(
        mut self,
        wire: Wire,
        mut context: Rc<Context>,
    ) -> Box<Connection> {
        let state = self.0.take().expect("it arrives once");
        let State { client, key, connection_id, peer, most, has_received, .. } = state;
        if client.publishing.receivers_at() == Some(processor()) {
            context.counters.joined.add(1);
        }
        if !Arc::ptr_eq(&state.config, &context.config) {
            let own = Rc::make_mut(&mut context);
            (own.config, own.listener) = (state.config, state.listener);
        }
        let stream = Rc::new(Transport::Wire(wire));
        let (outbox, spare) = (Rc::new(Outbox::new(client.version, most)), Cell::default());
        if has_received {
            outbox.set_received();
        }
        let shared = Rc::new(Shared { stream, context, outbox, peer, key, connection_id, spare });
        sender::start(&shared);
        Connection::new(shared, client)
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        let Some(state) = self.0.take() else { return };
        let State { client, key, connection_id, stages, counters, peer, .. } = state;
        counters.connected.add(-1);
        peer.listener.connections.add(-1);
        let what = "the connection could not move to another processor";
        let (names, end) =
            ((&client.identity, &peer.origin), End::Because(Reason::SERVER_BUSY, what));
        logging::disconnected(counters.drops.events(), names, (&end, None), client.since);
        let Stages { control, sessions, routing } = stages;
        let closing = Closing { will: true, expiry: None };
        if sessions.close(key, connection_id, closing, routing).detach().is_err() {
            // If this stage is full, too, the session stays attached until its client returns.
            let _ = control.dispatch(move |_| stages.close((key, connection_id), closing));
        }
    }
}

#[cfg(test)]
mod tests {
    use phalanx::net::IoTimeout;
    use phalanx::{Graph, sim};
    use phalanx_mqtt::Version;

    use super::*;
    use crate::Broker;
    use crate::access::Identity;
    use crate::connection::batch::gather::Publishing;
    use crate::events::traces::Target;
    use crate::session::partition::open::Opening;

    #[test]
    fn a_connection_that_does_not_arrive_is_closed() {
        let declare = |graph: &mut Graph| Broker::declare(graph, &Config::new());
        sim::block_on(0, Some(1), declare, |broker| async move {
            let Context { stages, counters, config, .. } = broker.context().clone();
            let metrics = counters.listeners.of(config.listen[0]);
            let origin = Origin { address: None, listen: metrics.listen };
            let (version, client_id) = (Version::V5, Arc::<str>::from("c"));
            let opening = Opening {
                client_id: client_id.clone(),
                user: None,
                origin: None,
                version,
                clean_start: true,
                expiry: 0,
                receive_maximum: 1,
                most: 100,
                must_exist: false,
                most_aliases: 0,
                will: None,
            };
            let opened = stages.sessions.open(opening, stages.routing).await.unwrap();
            let opened = opened.expect("the broker has no limits");
            let (sessions, connected) = (counters.sessions.clone(), counters.connected.clone());
            let events = counters.drops.events().clone();
            let trace = events.traces().begin(Target::Client("c".into()), STOP_LIMIT * 100);
            connected.add(1);
            let client = Client {
                version,
                identity: Identity { user: None, client: client_id },
                timeout: IoTimeout::NONE,
                input: Vec::new(),
                publishing: Publishing::new(0, false, (opened.key, 0)),
                wants_reasons: true,
                reauthentication: None,
                since: Duration::ZERO,
                stays_until: Duration::ZERO,
                rate_limit: None,
            };
            drop(Moving(Some(State {
                client,
                key: opened.key,
                connection_id: opened.connection_id,
                peer: Peer::of_bridge(origin, metrics),
                most: 100,
                has_received: false,
                config,
                listener: None,
                stages,
                counters,
            })));
            sleep(STOP_LIMIT).await;
            assert_eq!((sessions.get(), connected.get()), (0, 0));
            let traced = serde_json::to_string(&events.traces().list(trace)).unwrap();
            assert!(traced.contains("disconnected"), "{traced}");
        });
    }
}
