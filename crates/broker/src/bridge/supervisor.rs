//! The life of one bridge: connect, serve the connection, reconnect.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::runtime::report;
use phalanx::shutdown::{draining, is_draining};
use phalanx::sync::Notify;
use phalanx::time::now;
use phalanx::{select, sleep};
use phalanx_tls::{Backoff, dial};

use crate::bridge::local::{ConnectionLimits, Local};
use crate::bridge::login::Login;
use crate::bridge::state_topic::StateTopic;
use crate::config::bridge::Credentials;
use crate::config::{Bridge, Remote};
use crate::connection::bridged::{Bridged, serve_bridged};
use crate::context::Context;
use crate::events::Origin;
use crate::limits::peer::Peer;
use crate::limits::settings::SharedSettings;
use crate::link::status::BridgeStatus;
use crate::link::topics::TopicMap;
use crate::link::{Link, LinkOptions};
use crate::listen::{Scheme, interned};
use crate::transport::Transport;

/// Duration of a connection after which its retained messages count as sent.
const MIN_RETAINED_TIME: Duration = Duration::from_secs(5);

/// A handle to a running bridge, for the manager of its processor.
#[derive(Default)]
pub(super) struct Handle {
    is_stopped: Cell<bool>,
    /// Whether the bridge was removed from the configuration, so that its session ends, too.
    is_removed: Cell<bool>,
    /// Set when the operation has ended: whether the session is unknown to the remote broker.
    is_new: Cell<bool>,
    transport: RefCell<Option<Rc<Transport>>>,
    wake: Notify,
    is_done: Cell<bool>,
    done: Notify,
}

impl Handle {
    /// Stops the bridge.
    pub(super) fn stop(&self, is_removed: bool) {
        self.is_stopped.set(true);
        self.is_removed.set(is_removed);
        if let Some(transport) = &*self.transport.borrow() {
            transport.shut();
        }
        self.wake.notify();
    }

    /// Whether the bridge's operation has ended.
    pub(super) fn is_done(&self) -> bool {
        self.is_done.get()
    }

    async fn wait_until_done(&self) {
        while !self.is_done.get() {
            self.done.notified().await;
        }
    }
}

/// Marks a bridge as done when its operation ends.
struct DoneGuard(Rc<Handle>);

impl Drop for DoneGuard {
    fn drop(&mut self) {
        self.0.is_done.set(true);
        self.0.done.notify();
    }
}

/// One running bridge.
struct Supervisor {
    context: Context,
    settings: SharedSettings,
    bridge: Arc<Bridge>,
    map: Arc<TopicMap>,
    local: Local,
    status: Arc<BridgeStatus>,
    state_topic: StateTopic,
    handle: Rc<Handle>,
}

/// Runs a bridge until it is stopped. First waits for the end of the bridge that it replaces.
pub(super) async fn supervise(
    context: Context,
    settings: SharedSettings,
    bridge: Bridge,
    (handle, earlier): (Rc<Handle>, Option<Rc<Handle>>),
) {
    let _done = DoneGuard(handle.clone());
    if let Some(earlier) = &earlier {
        earlier.wait_until_done().await;
    }
    let is_new = earlier.is_some_and(|earlier| earlier.is_new.get());
    let (bridge, map) = (Arc::new(bridge.clone()), Arc::new(TopicMap::new(&bridge.topics)));
    let status = context.bridges.status(&bridge.name);
    let local = Local::new(context.clone(), bridge.clone(), map.clone(), is_new);
    let state_topic = StateTopic::new(&bridge.name, context.stages.routing);
    let own = Supervisor { context, settings, bridge, map, local, status, state_topic, handle };
    let mut publishing = pin!(own.state_topic.publish());
    select(own.run(), publishing.as_mut()).await;
    own.state_topic.close();
    publishing.await;
    own.handle.is_new.set(own.local.is_new());
    if own.handle.is_removed.get() {
        own.local.end().await;
        own.context.bridges.forget(&own.bridge.name);
    }
}

impl Supervisor {
    async fn run(&self) {
        let Bridge { reconnect_delay, max_reconnect_delay, client_id, .. } = &*self.bridge;
        let mut backoff = Backoff::new(*reconnect_delay, *max_reconnect_delay, client_id.clone());
        let mut is_prepared = false;
        while !self.is_ending() {
            self.status.count_attempt();
            let prepared = match is_prepared {
                true => Ok(()),
                false => self.local.prepare().await,
            };
            if prepared.is_ok() && !is_prepared {
                // From now on, messages are queued.
                self.state_topic.set(false);
                is_prepared = true;
            }
            let result = match prepared {
                Ok(()) => Box::pin(self.attempt()).await,
                Err(reason) => Err(reason),
            };
            if self.is_ending() {
                return;
            }
            let (error, what) = match result {
                Ok(duration) => {
                    backoff.record_connection(duration);
                    let reason = self.status.last_error();
                    (reason.unwrap_or_else(|| "connection lost".into()), "disconnected")
                }
                Err(reason) => (reason, "cannot connect"),
            };
            if self.status.set_disconnected(error.clone(), now()) || what == "disconnected" {
                report(format_args!("bridge {}: {what}: {error}; trying again", self.bridge.name));
            }
            let delay = backoff.next_delay(now());
            select(select(sleep(delay), self.handle.wake.notified()), draining()).await;
        }
    }

    fn is_ending(&self) -> bool {
        self.handle.is_stopped.get() || is_draining()
    }

    /// Connects to the first available address, and serves the connection. Returns its duration.
    ///
    /// # Errors
    /// A description of why no address is available.
    async fn attempt(&self) -> Result<Duration, String> {
        let credentials = self.credentials().await?;
        let mut last = String::new();
        for remote in &self.bridge.address {
            match self.connect(remote, &credentials).await {
                Ok(bridged) => return Ok(self.serve(bridged, remote).await),
                Err(reason) => last = format!("{remote}: {reason}"),
            }
            if self.is_ending() {
                break;
            }
        }
        Err(last)
    }

    /// Reads the bridge's files for each attempt, because they may have been replaced.
    async fn credentials(&self) -> Result<Credentials, String> {
        let is_plain = self.bridge.address.iter().all(|remote| !remote.is_tls);
        if is_plain && self.bridge.password_file.is_none() {
            return Ok(Credentials { password: None, connector: None });
        }
        let bridge = self.bridge.clone();
        let read = self.context.bridges.files.call(move |()| bridge.credentials());
        read.await.map_err(|error| error.to_string())?
    }

    async fn connect(&self, remote: &Remote, credentials: &Credentials) -> Result<Bridged, String> {
        let limits = self.settings.load().limits.clone();
        let connector = credentials.connector.as_ref().filter(|_| remote.is_tls);
        let resolver = &self.context.bridges.resolver;
        let host = (&*remote.host, remote.port);
        let limit = IoTimeout::after(limits.connect).until_shutdown();
        let connection = dial(resolver, host, connector, limit).await;
        let (wire, address) = connection.map_err(|error| error.to_string())?;
        let of_bridge = (&*self.bridge, &*self.map);
        let broker_id = self.context.bridges.broker_id.clone();
        let broker_id = self.bridge.loop_detection.then_some(broker_id);
        let growth = Link::growth(self.map.growth_to_local(), broker_id.as_deref());
        let password = credentials.password.as_deref();
        let clean_start = self.bridge.clean_start || self.local.needs_clean_start();
        let login = Login::new(&wire, of_bridge, &limits, (password, growth, clean_start));
        let granted = Box::pin(login.run()).await?;
        let scheme = if remote.is_tls { Scheme::Mqtts } else { Scheme::Mqtt };
        let listen = interned(scheme.at(address));
        let origin = Origin { address: Some(address), listen };
        let growth = Link::growth(self.map.growth_to_remote(), broker_id.as_deref());
        let own = ConnectionLimits {
            origin: Some(origin),
            receive_maximum: granted.receive_maximum,
            max_packet: granted.max_packet.saturating_sub(growth),
        };
        let opened = self.local.open(own).await?;
        if !granted.is_present {
            self.local.mark_known();
            // The remote broker's session is new, so its packet identifiers no longer refer to earlier messages.
            let sessions = self.context.stages.sessions;
            let is_forgotten = sessions.forget_received(opened.key, opened.connection_id).await;
            if !is_forgotten.unwrap_or(false) {
                self.local.detach(&opened).await;
                return Err("the disk makes no progress".into());
            }
        }
        let link = Link::new(
            wire,
            granted.rest,
            LinkOptions {
                map: self.map.clone(),
                broker_id,
                retain_available: granted.retain_available,
                max_local_packet: limits.packet_size,
                max_remote_packet: granted.max_packet,
                local_aliases: limits.topic_alias,
                remote_aliases: granted.aliases,
                keep_alive: granted.keep_alive,
                awaits_suback: granted.awaits_suback,
                unreleased: self.local.unreleased(remote, granted.is_present),
                answer_timeout: limits.connect,
                is_resumed: granted.keeps_session,
                origin,
                client: self.local.client.clone(),
                counters: self.context.counters.clone(),
                status: self.status.clone(),
            },
        );
        let metrics = self.context.counters.bridges.named(*origin.listen, &self.bridge.name);
        Ok(Bridged {
            stream: Rc::new(Transport::Link(Box::new(link))),
            opened,
            identity: self.local.identity(),
            peer: Peer::of_bridge(origin, metrics),
            most: granted.max_packet,
            persistent: self.local.is_persistent(),
        })
    }

    /// Serves a connection until it ends. Returns its duration.
    async fn serve(&self, bridged: Bridged, remote: &Remote) -> Duration {
        let (started, name) = (now(), &self.bridge.name);
        self.status.set_connected(&remote.to_string(), started);
        report(format_args!("bridge {name}: connected to {remote}"));
        self.state_topic.set(true);
        let stream = bridged.stream.clone();
        self.handle.transport.replace(Some(stream.clone()));
        if self.is_ending() {
            stream.shut();
        }
        // Loaded for each connection, so that a reload applies to later ones.
        let config = self.settings.load().config.clone();
        Box::pin(serve_bridged(bridged, Context { config, ..self.context.clone() })).await;
        self.handle.transport.replace(None);
        if matches!(&*stream, Transport::Link(link) if link.has_released()) {
            self.local.mark_known();
        }
        self.state_topic.set(false);
        let duration = now() - started;
        if duration >= MIN_RETAINED_TIME {
            self.local.mark_retained_sent();
        }
        duration
    }
}
