//! The session of a bridge and its subscriptions at this broker.

use std::cell::{Cell, RefCell};
use std::num::NonZero;
use std::rc::Rc;
use std::sync::Arc;

use phalanx::CallError;
use phalanx_mqtt::{QoS, Reason, RetainHandling, SubscribeOptions, Version};

use crate::access::{BRIDGE_CLIENTS, Identity};
use crate::config::{Bridge, Remote};
use crate::content::parse::{PacketFilter, parse};
use crate::context::Context;
use crate::events::Origin;
use crate::link::Unreleased;
use crate::link::topics::{Forwarded, TopicMap};
use crate::requests::SubscriptionRequest;
use crate::session::partition::close::Closing;
use crate::session::partition::open::{Opened, Opening};

/// The local side of a bridge.
pub(super) struct Local {
    context: Context,
    bridge: Arc<Bridge>,
    map: Arc<TopicMap>,
    pub(super) client: Arc<str>,
    /// Which retained messages the session has already been given.
    retained: Cell<RetainedSent>,
    /// Whether the session is new while the remote broker may still have its counterpart of an earlier session.
    is_new: Cell<bool>,
    /// The packet identifiers that an earlier connection to this remote broker has not released.
    unreleased: RefCell<Option<(Remote, Rc<Unreleased>)>>,
}

/// The retained messages that were sent.
#[derive(Clone, Copy, PartialEq)]
enum RetainedSent {
    None,
    /// Those of QoS 1 and 2 were queued. Those of QoS 0 may be lost with the connection.
    Queued,
    All,
}

/// The limits of the connection for which a session is opened.
#[derive(Clone, Copy)]
pub(super) struct ConnectionLimits {
    pub(super) origin: Option<Origin>,
    pub(super) receive_maximum: u16,
    /// Maximum packet size, in bytes.
    pub(super) max_packet: usize,
}

impl Local {
    /// `is_new` applies to an existing session. A session that does not exist is always new.
    pub(super) fn new(
        context: Context,
        bridge: Arc<Bridge>,
        map: Arc<TopicMap>,
        is_new: bool,
    ) -> Self {
        let client = format!("{BRIDGE_CLIENTS}{}", bridge.name).into();
        let (retained, is_new) = (Cell::new(RetainedSent::None), Cell::new(is_new));
        Self { context, bridge, map, client, retained, is_new, unreleased: RefCell::default() }
    }

    pub(super) fn identity(&self) -> Identity {
        Identity { user: None, client: self.client.clone() }
    }

    /// Whether the session is kept while the remote broker is disconnected.
    pub(super) fn is_persistent(&self) -> bool {
        !self.bridge.local_clean_start
    }

    /// Opens the session once, so that it queues messages until the remote broker is connected.
    ///
    /// # Errors
    /// A description of the error.
    pub(super) async fn prepare(&self) -> Result<(), String> {
        if !self.is_persistent() {
            return Ok(());
        }
        let limits =
            ConnectionLimits { origin: None, receive_maximum: u16::MAX, max_packet: usize::MAX };
        let opened = self.attach(limits).await?;
        let retain_handling = RetainHandling::DoNotSend;
        let subscribed = match self.unsubscribe_others(&opened).await {
            Ok(()) => self.subscribe(&opened, (retain_handling, false)).await,
            Err(reason) => Err(reason),
        };
        self.detach(&opened).await;
        subscribed
    }

    /// Opens the session for a connection. The first connection gets the retained messages. If it ends early, the next
    /// one gets those of QoS 0 again.
    ///
    /// # Errors
    /// A description of the error.
    pub(super) async fn open(&self, limits: ConnectionLimits) -> Result<Opened, String> {
        let opened = self.attach(limits).await?;
        if !opened.present {
            self.retained.set(RetainedSent::None);
        }
        if self.retained.get() != RetainedSent::All {
            let only_at_most_once = self.retained.get() == RetainedSent::Queued;
            let retained = (RetainHandling::Send, only_at_most_once);
            if let Err(reason) = self.subscribe(&opened, retained).await {
                self.detach(&opened).await;
                return Err(reason);
            }
            self.retained.set(RetainedSent::Queued);
        }
        Ok(opened)
    }

    /// Marks the retained messages as sent, because the connection lasted long enough.
    pub(super) fn mark_retained_sent(&self) {
        self.retained.set(RetainedSent::All);
    }

    /// Whether the session is new while the remote broker may still have its counterpart of an earlier session.
    pub(super) fn is_new(&self) -> bool {
        self.is_new.get()
    }

    /// Whether the session is new and the remote broker may mistake a new QoS 2 message for an earlier one with the same
    /// packet identifier.
    fn may_confuse_messages(&self) -> bool {
        let is_new = self.is_new.get() || !self.is_persistent();
        is_new && self.map.outgoing().any(|(_, topic)| topic.qos == QoS::ExactlyOnce)
    }

    /// The packet identifiers that a connection to `remote` has to release. `is_present` says whether the remote broker
    /// holds a session of the bridge. If an earlier connection did not release all of them, no message was sent since, so
    /// this one releases the rest.
    pub(super) fn unreleased(&self, remote: &Remote, is_present: bool) -> Rc<Unreleased> {
        let mut kept = self.unreleased.borrow_mut();
        if !is_present || !self.may_confuse_messages() {
            *kept = None;
            return Rc::default();
        }
        match &*kept {
            Some((of, left)) if of == remote && !left.is_empty() => left.clone(),
            _ => kept.insert((remote.clone(), Rc::new(Unreleased::all()))).1.clone(),
        }
    }

    /// Whether the remote broker has to discard its session for the bridge, because it belongs to an earlier session
    /// here. If the bridge receives messages, it continues that session nevertheless, so that no message is lost.
    pub(super) fn needs_clean_start(&self) -> bool {
        self.may_confuse_messages() && self.map.incoming().next().is_none()
    }

    /// Records that the remote broker has discarded the bridge's earlier session, or has completed its QoS 2 messages.
    pub(super) fn mark_known(&self) {
        self.is_new.set(false);
    }

    /// Ends the session of a removed bridge.
    pub(super) async fn end(&self) {
        let sessions = self.context.stages.sessions;
        let (client, routing) = (self.client.to_string(), self.context.stages.routing);
        let ended = sessions.end_session(client, Reason::ADMINISTRATIVE_ACTION, routing);
        // If the broker is busy, the session stays until the next start.
        let _ = ended.await;
    }

    /// Attaches a connection to the session, which is new if it does not exist.
    async fn attach(&self, limits: ConnectionLimits) -> Result<Opened, String> {
        let ConnectionLimits { origin, receive_maximum, max_packet } = limits;
        let opening = Opening {
            client_id: self.client.clone(),
            origin,
            user: None,
            version: Version::V5,
            clean_start: !self.is_persistent(),
            expiry: if self.is_persistent() { u32::MAX } else { 0 },
            receive_maximum,
            most: max_packet,
            // The link defines its own aliases, for the remote topics.
            must_exist: false,
            most_aliases: 0,
            will: None,
        };
        let stages = self.context.stages;
        match stages.sessions.open(opening, stages.routing).await {
            Ok(Ok(opened)) => {
                if !opened.present {
                    self.is_new.set(true);
                }
                Ok(opened)
            }
            Ok(Err(reason)) => {
                Err(format!("this broker cannot keep the bridge's session: {reason}"))
            }
            Err(error) => Err(format!("this broker is busy: {error}")),
        }
    }

    /// Detaches the session from a connection.
    pub(super) async fn detach(&self, opened: &Opened) {
        let (stages, closing) = (self.context.stages, Closing { will: false, expiry: None });
        let (key, number) = (opened.key, opened.connection_id);
        // If the broker is busy, the next connection takes the session over.
        let _ = stages.sessions.close(key, number, closing, stages.routing).await;
    }

    /// Removes subscriptions of an earlier configuration.
    async fn unsubscribe_others(&self, opened: &Opened) -> Result<(), String> {
        let stages = self.context.stages;
        let keys = stages.sessions.subscription_keys(self.client.clone());
        let mut keys = keys.await.map_err(|error| format!("this broker is busy: {error}"))?;
        let wanted = self.requests((RetainHandling::DoNotSend, false))?;
        keys.retain(|key| wanted.iter().all(|request| request.key != *key));
        if keys.is_empty() {
            return Ok(());
        }
        let of = (opened.key, opened.connection_id);
        let reasons = stages.sessions.unsubscribe(of, keys, stages.routing).await;
        all_succeeded(reasons, "cannot remove earlier subscriptions")
    }

    async fn subscribe(
        &self,
        opened: &Opened,
        retained: (RetainHandling, bool),
    ) -> Result<(), String> {
        let requests: Vec<_> = self.requests(retained)?.into_iter().map(Ok).collect();
        if requests.is_empty() {
            return Ok(());
        }
        let (stages, key, number) = (self.context.stages, opened.key, opened.connection_id);
        let reasons =
            stages.sessions.subscribe((key, number), requests, stages.routing, None).await;
        all_succeeded(reasons, "cannot subscribe to the topics of this broker")
    }

    /// The configured subscriptions. If `only_at_most_once`, only retained messages of QoS 0 are sent.
    fn requests(
        &self,
        (retain_handling, only_at_most_once): (RetainHandling, bool),
    ) -> Result<Vec<SubscriptionRequest>, String> {
        let policy = self.context.access.load();
        let identity = self.identity();
        let request = |(id, forwarded): (u32, &Forwarded)| {
            let filter = match forwarded.topic.filter.as_deref() {
                None => PacketFilter::LITERAL,
                filter => PacketFilter::configured(filter, forwarded.topic.json_payload),
            };
            let parsed = parse(&forwarded.local, filter)?;
            let options = SubscribeOptions {
                qos: forwarded.qos,
                no_local: self.bridge.no_local,
                retain_as_published: self.bridge.retain_as_published,
                retain_handling,
            };
            let covered = policy.may_subscribe(&identity, &forwarded.local);
            let covered = covered.ok_or("the access list excludes it")?;
            let (key, content) = (parsed.key, parsed.content);
            let identifier = NonZero::new(id);
            Ok(SubscriptionRequest {
                key,
                content,
                options,
                identifier,
                covered,
                only_at_most_once,
            })
        };
        self.map.outgoing().map(request).collect()
    }
}

/// Checks that all steps succeeded. The error names the first failure, and `what` failed.
fn all_succeeded(reasons: Result<Vec<Reason>, CallError>, what: &str) -> Result<(), String> {
    let reasons = reasons.map_err(|error| format!("{what}: this broker is busy: {error}"))?;
    match reasons.iter().find(|reason| reason.is_failure()) {
        None => Ok(()),
        Some(reason) => Err(format!("{what}: {reason}")),
    }
}

#[cfg(test)]
mod tests {
    use phalanx::{Graph, sim};

    use super::*;
    use crate::Broker;
    use crate::config::{BridgeTopic, Config};

    /// Calls `test` with the local side of a bridge, in a simulated broker.
    fn with_local(test: impl AsyncFn(Local) + Copy + 'static) {
        sim::run(0, |world| {
            let (mut graph, mut config) = (Graph::new(), Config::new());
            config.runtime.workers = 1;
            let broker = Broker::declare(&mut graph, &config);
            let stage = graph.stage("test").shared(());
            let net = world.net();
            world.program(graph, move |_| {
                let (context, net) = (broker.context().clone(), net.clone());
                stage.dispatch(move |_| async move {
                    let topic =
                        BridgeTopic { pattern: "#".into(), qos: 2, ..BridgeTopic::default() };
                    let topics = vec![topic];
                    let map = Arc::new(TopicMap::new(&topics));
                    let bridge = Bridge { name: "b".into(), topics, ..Bridge::default() };
                    let bridge = Arc::new(bridge);
                    test(Local::new(context, bridge, map, false)).await;
                    net.drain();
                })?;
                Ok(())
            });
        });
    }

    #[test]
    fn a_session_is_new_until_the_remote_broker_is_connected() {
        with_local(async |local| {
            // Preparing is repeated after a failure, and before the remote broker is reached.
            for _ in 0..2 {
                local.prepare().await.unwrap();
                assert!(local.needs_clean_start());
            }
            local.mark_known();
            assert!(!local.needs_clean_start());
        });
    }

    #[test]
    fn a_connection_releases_what_an_earlier_one_to_the_same_broker_has_left() {
        with_local(async |local| {
            local.prepare().await.unwrap();
            let [one, other] =
                ["mqtt://one", "mqtt://other"].map(|address| address.parse().unwrap());
            let first = local.unreleased(&one, true);
            assert!(!first.is_empty());
            assert!(Rc::ptr_eq(&local.unreleased(&one, true), &first));
            // Another broker may hold other messages.
            assert!(!Rc::ptr_eq(&local.unreleased(&other, true), &first));
            assert!(!Rc::ptr_eq(&local.unreleased(&one, true), &first));
            // The remote broker has lost its session, and creates an empty one.
            assert!(local.unreleased(&one, false).is_empty());
            local.mark_known();
            assert!(local.unreleased(&one, true).is_empty());
        });
    }

    #[test]
    fn a_refused_call_is_a_failure() {
        let result =
            |reasons| all_succeeded(reasons, "cannot").map_err(|reason| reason.contains("busy"));
        assert_eq!(result(Ok(vec![Reason::SUCCESS])), Ok(()));
        assert_eq!(result(Ok(vec![Reason::SUCCESS, Reason::QUOTA_EXCEEDED])), Err(false));
        assert_eq!(result(Err(CallError::Cancelled)), Err(true));
    }
}
