//! Runs this node from its start to its shutdown.

use std::cell::{Cell, RefCell};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::runtime::report;
use phalanx::shutdown::{draining, is_draining};
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{select, sleep};
use phalanx_nats::{Client, Options};

use crate::cluster::adoption::watch::watch;
use crate::cluster::ending::Ending;
use crate::cluster::guard::guard;
use crate::cluster::intervals::{HELLOS_PER_TIMEOUT, TICKS_PER_TIMEOUT};
use crate::cluster::moving::{Moves, leaving, undecided};
use crate::cluster::node::Node;
use crate::cluster::{find, session_query, takeover};
use crate::config::Cluster;
use crate::context::Context;
use crate::limits::settings::SharedSettings;
use crate::peers::Peers;

/// Serves the cluster until shutdown.
pub(crate) async fn serve_cluster(
    (context, settings): (Context, SharedSettings),
    (cluster, peers): (Cluster, Arc<Peers>),
) {
    let mut last_error = String::new();
    let (name, access) = loop {
        let of_cluster = cluster.clone();
        let read = move |_: &()| Ok::<_, String>((of_cluster.node_name()?, of_cluster.access()?));
        let reason = match context.bridges.files.call(read).await {
            Ok(Ok(read)) => break read,
            Ok(Err(reason)) => reason,
            Err(error) => error.to_string(),
        };
        if last_error != reason {
            report(format_args!("cluster: {reason}; trying again"));
            last_error = reason;
        }
        let pause = sleep(cluster.timeout / TICKS_PER_TIMEOUT);
        if let Either::Right(()) = select(pause, draining()).await {
            return;
        }
    };
    let of_status = peers.clone();
    let options = Options {
        access,
        name: format!("phalanx {name}"),
        connect_timeout: cluster.timeout,
        // A server that answers neither of two pings counts as lost.
        ping_interval: cluster.timeout / 3,
        write_timeout: cluster.timeout,
        reconnect_delay: (
            cluster.timeout / TICKS_PER_TIMEOUT / 2,
            cluster.timeout / HELLOS_PER_TIMEOUT,
        ),
        metrics: peers.status.messages.clone(),
        on_state: Rc::new(move |state| {
            let result = state.map(ToString::to_string);
            let line = match &result {
                Ok(server) => format!("connected to {server}"),
                Err(reason) => format!("NATS is not connected: {reason}; trying again"),
            };
            if of_status.status.set_nats(result) && !is_draining() {
                report(format_args!("cluster: {line}"));
            }
        }),
        on_error: Rc::new(|message| report(format_args!("cluster: NATS reports: {message}"))),
        ..Options::default()
    };
    let ending = Ending::new(context.clone(), peers.clone(), name.clone());
    let node = Rc::new(Node {
        client: Client::new(options, context.bridges.resolver),
        name,
        start: context.bridges.broker_id.to_string(),
        prefix: format!("phalanx.{}", cluster.name),
        others: RefCell::default(),
        claims: Cell::new(0),
        ending,
        next_lane: Cell::new(first_lane(&context.bridges.broker_id)),
        sessions: RefCell::default(),
        unsynced: RefCell::default(),
        missed_since: RefCell::default(),
        own_adoptions: RefCell::default(),
        adopted_journals: RefCell::default(),
        active_handovers: RefCell::default(),
        is_continuing_handovers: Cell::new(false),
        is_moving: Cell::new(false),
        timeout: cluster.timeout,
        context,
        settings,
        peers,
    });
    node.clone().subscribe();
    let running = node.client.clone();
    let control = node.context.stages.control;
    if let Err(error) = control.dispatch(move |_| async move { running.run().await }) {
        return report(format_args!("cluster: cannot start: {error}; start again"));
    }
    let (context, client) = (node.context.clone(), node.client.clone());
    let _ = control.dispatch(move |_| watch(context, client));
    let guarded = node.context.clone();
    let _ = control.dispatch(move |_| guard(guarded));
    if node.context.kept.is_some() {
        serve_moves(&node);
    }
    let claims = node.clone();
    let _ = control.dispatch(move |_| takeover::announce_claims(claims));
    let renewing = node.clone();
    let _ = control.dispatch(move |_| async move { renewing.follow_settings().await });
    node.run().await;
}

/// Finds and moves kept sessions.
fn serve_moves(node: &Rc<Node>) {
    let (rounds, moves) = (Rc::default(), Rc::<Moves>::default());
    session_query::listen(node, &rounds);
    leaving::listen(node, &moves);
    let control = node.context.stages.control;
    let (own, of_questions) = (node.clone(), (rounds.clone(), moves.clone()));
    let _ = control.dispatch(move |_| find::serve(own, of_questions.0, of_questions.1));
    let own = node.clone();
    let _ = control.dispatch(move |_| leaving::end_overdue_moves(own, moves));
    let own = node.clone();
    let _ = control.dispatch(move |_| undecided::resolve(own, rounds));
}

/// The number of the first lane. It depends on the start, so that lanes of an earlier start had other numbers.
fn first_lane(start: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    start.hash(&mut hasher);
    hasher.finish()
}

impl Node {
    fn subscribe(self: Rc<Self>) {
        let Self { client, name, .. } = &*self;
        let own = self.clone();
        client.subscribe(&self.subject("nodes"), None, move |message| own.handle_hello(&message));
        let own = self.clone();
        let filter = self.subject(&format!("to.{name}.*"));
        client.subscribe(&filter, None, move |message| own.handle_frame(&message));
        let own = self.clone();
        client.subscribe(&takeover::subject(&self), None, move |message| {
            takeover::handle_claims(&own, message.payload);
        });
    }

    async fn run(self: Rc<Self>) {
        let (mut next_hello, mut was_connected) = (Duration::ZERO, false);
        loop {
            let is_connected = self.client.is_connected();
            if is_connected && (now() >= next_hello || !was_connected) {
                self.send_hello();
                next_hello = now() + self.timeout / HELLOS_PER_TIMEOUT;
            }
            was_connected = is_connected;
            self.check_lanes();
            if let Either::Right(()) =
                select(sleep(self.timeout / TICKS_PER_TIMEOUT), draining()).await
            {
                break;
            }
        }
        for other in self.others.borrow().values() {
            if let Some(lane) = &*other.lane.borrow() {
                lane.close("the node shuts down");
            }
        }
        self.client.stop();
    }

    /// Applies reloaded configurations until shutdown. Separate from [`run`](Self::run), because reading their files may
    /// be slow.
    async fn follow_settings(&self) {
        let mut config = self.settings.load().config.clone();
        loop {
            let current = self.settings.load().config.clone();
            if !Arc::ptr_eq(&current, &config) {
                self.renew(&current.cluster).await;
                config = current;
            }
            let pause = sleep(self.timeout / TICKS_PER_TIMEOUT);
            if let Either::Right(()) = select(pause, draining()).await {
                return;
            }
        }
    }

    /// Applies a reloaded configuration. The next connection to NATS uses it.
    async fn renew(&self, cluster: &Cluster) {
        let of_cluster = cluster.clone();
        let reason = match self.context.bridges.files.call(move |()| of_cluster.access()).await {
            Ok(Ok(access)) => return self.client.renew(access),
            Ok(Err(reason)) => reason,
            Err(error) => error.to_string(),
        };
        report(format_args!("cluster: {reason}; the earlier credentials remain, reload again"));
    }
}
