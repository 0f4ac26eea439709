//! The routing stage: whom is a message for? One table for all processors, reached by a cohort operation: all
//! publishes of a cohort are routed in one pass under one lock.

pub(crate) mod delivery;
pub(crate) mod delivery_limiter;
#[cfg(test)]
mod delivery_limiter_sim;
mod retained;
mod router;
mod router_wal;
mod routing_batch;
pub(crate) mod stage;
pub(crate) mod subscribers;

use std::num::NonZero;
use std::sync::Arc;

use phalanx_mqtt::{Reason, SubscribeOptions};

use crate::access::{Covered, Identity};
use crate::content::parse::Content;
use crate::message::Message;
use crate::routing::delivery_limiter::Permit;
use crate::session::key::ClientKey;
use crate::session::qos2::Qos2InFlight;

pub(crate) use delivery_limiter::DeliveryLimiter;
pub(crate) use router::Router;
pub(crate) use router_wal::{MAX_DURABLE_PACKET, RouterWal};

/// What the routing stage is asked.
pub(crate) enum Item {
    /// Pass these on.
    Publish(Publication),
    /// Pass these on, and keep them for those who subscribe later: they are the broker's own.
    System(Vec<Arc<Message>>),
    /// Subscribe a client, and send it what is retained. It is known from here on.
    Subscribe { client: Subscriber, requests: Vec<SubscriptionRequest> },
    /// Send a client what is retained, for which there was no room when it subscribed.
    Retained(PendingRetained, Option<Permit>),
    /// Take subscriptions of a client away.
    Unsubscribe { client: ClientKey, keys: Vec<Box<str>> },
    /// Take all of them away, and the client.
    Forget { client: ClientKey, keys: Arc<[Box<str>]> },
    /// A client with shared subscriptions has come or gone.
    Presence { client: ClientKey, online: bool },
}

impl Item {
    /// Whether there may be something to note or to deliver of it.
    fn may_be_noted(&self) -> bool {
        match self {
            Self::Publish(_) | Self::System(_) | Self::Subscribe { .. } | Self::Retained(..) => {
                true
            }
            Self::Unsubscribe { .. } | Self::Forget { .. } | Self::Presence { .. } => false,
        }
    }
}

/// Somebody who subscribes.
pub(crate) struct Subscriber {
    pub(crate) key: ClientKey,
    /// The number that its session is kept by, and what waits for it; 0 if they are not.
    pub(crate) durable_id: u64,
    pub(crate) identity: Identity,
}

/// One subscription of a client's.
pub(crate) struct SubscriptionRequest {
    /// What it is known by: the topic filter as it was written, a group included, and the filter on what
    /// messages carry.
    pub(crate) key: Box<str>,
    pub(crate) content: Option<Content>,
    pub(crate) options: SubscribeOptions,
    pub(crate) identifier: Option<NonZero<u32>>,
    pub(crate) covered: Covered,
}

/// Retained messages that somebody is to be sent who has subscribed to them.
pub(crate) struct PendingRetained {
    pub(crate) client: ClientKey,
    pub(crate) requests: Vec<SubscriptionRequest>,
}

/// What the routing stage answers.
pub(crate) enum Answer {
    /// They are passed on; of those that there was no room for nothing has happened.
    Published(Publication),
    /// The client has subscribed, and is to be sent what is retained, for which there was no room.
    PendingRetained(PendingRetained),
    /// The table is changed.
    Done,
}

/// Messages of one client, in its order. What is answered is this again, with how it went: so that its memory comes
/// back, too.
#[derive(Default)]
pub(crate) struct Publication {
    pub(crate) messages: Vec<Arc<Message>>,
    /// Who is told of those of QoS 2.
    pub(crate) begun: Option<Arc<Qos2InFlight>>,
    /// For each message, how it went; empty before. Fewer than there are messages if there was no room for the last: who
    /// has published them [waits](DeliveryLimiter::acquire), and asks again.
    pub(crate) reasons: Vec<Reason>,
    /// With which it was let in, if it has waited.
    pub(crate) permit: Option<Permit>,
    /// They are passed on and noted, but the disk takes nothing: nobody knows what a crash would leave of them.
    pub(crate) is_late: bool,
    /// How many deliveries each has come to, about.
    pub(crate) each: usize,
}
