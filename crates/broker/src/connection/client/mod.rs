//! The connection of an accepted client: its state, its sender, and its move to another processor.

pub(super) mod moving;
pub(super) mod sender;

use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;
use std::time::Duration;

use arc_swap::Cache;
use phalanx::net::IoTimeout;
use phalanx_access::scram::Mechanism;
use phalanx_mqtt::{Properties, Property, PropertyBuffer, Version};

use crate::access::permissions::KnownTopics;
use crate::access::scram::ScramLogin;
use crate::access::{CachedPolicy, Identity};
use crate::connection::batch::gather::Publishing;
use crate::context::Context;
use crate::events::drops::Dropped;
use crate::limits::peer::Peer;
use crate::limits::rate_limit::RateLimit;
use crate::model::client_key::ClientKey;
use crate::transport::Transport;
use crate::transport::outbox::Outbox;

/// State of a connection that its reader and its sender share. Idle connections are many, so the state is not copied.
pub(crate) struct Shared {
    pub(super) stream: Rc<Transport>,
    pub(super) context: Rc<Context>,
    pub(super) outbox: Rc<Outbox>,
    /// Its resources are released when both reader and sender have ended.
    pub(super) peer: Peer,
    pub(super) key: ClientKey,
    pub(super) connection_id: u64,
    /// The buffer of the last write, kept for the next one.
    pub(super) spare: Cell<Vec<u8>>,
}

/// An accepted client's connection, as its reader sees it.
pub(crate) struct Connection {
    pub(super) shared: Rc<Shared>,
    /// The policy in force, cached.
    pub(super) policy: CachedPolicy,
    /// Cached decisions of the authorization service about topics, if there is a service.
    pub(super) known_topics: Option<Box<KnownTopics>>,
    pub(super) client: Client,
}

/// The state of an accepted client that moves to another processor with its connection.
pub(super) struct Client {
    pub(super) version: Version,
    pub(super) identity: Identity,
    /// 1.5 times the keep-alive.
    pub(super) timeout: IoTimeout,
    /// Received bytes that are not processed.
    pub(super) input: Vec<u8>,
    pub(super) publishing: Publishing,
    pub(super) wants_reasons: bool,
    /// `None` unless the client was authenticated by AUTH.
    pub(super) reauthentication: Option<Box<Reauthentication>>,
    /// Time of acceptance.
    pub(super) since: Duration,
    /// The connection stays on its processor until this time, because it could not leave.
    pub(super) stays_until: Duration,
    /// The publish rate limit, if configured.
    pub(super) rate_limit: Option<Box<RateLimit>>,
}

impl Deref for Connection {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Connection {
    pub(super) fn new(shared: Rc<Shared>, client: Client) -> Box<Self> {
        let policy = Cache::new(shared.context.access.clone());
        Box::new(Self { shared, policy, known_topics: None, client })
    }

    /// The client as the publisher of dropped messages.
    pub(super) fn as_publisher<'a>(&'a self, topic: Option<&'a str>) -> Dropped<'a> {
        self.client.identity.as_publisher(topic, self.peer.origin)
    }

    /// A reason string property, if the client requests them and `what` is not empty.
    pub(super) fn reason<'b>(&self, buffer: &'b mut PropertyBuffer, what: &str) -> Properties<'b> {
        if self.client.wants_reasons && !what.is_empty() {
            // Cannot fail: the reason string is short.
            let _ = buffer.push(Property::ReasonString(what));
        }
        buffer.get()
    }
}

/// The authentication method of an accepted client, which may authenticate again.
pub(super) struct Reauthentication {
    pub(super) mechanism: Mechanism,
    /// The current exchange, and the time at which it began.
    pub(super) exchange: Option<(ScramLogin, Duration)>,
}

impl Reauthentication {
    pub(super) fn new(mechanism: Mechanism) -> Self {
        Self { mechanism, exchange: None }
    }
}
