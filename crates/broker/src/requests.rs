//! Requests to the routing stage, and its answers.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use phalanx::stage::CohortStage;
use phalanx_mqtt::{Reason, SubscribeOptions};

use crate::access::{Covered, Identity};
use crate::content::parse::Content;
use crate::limits::delivery_limiter::Permit;
use crate::model::client_key::ClientKey;
use crate::model::delivery::How;
use crate::model::message::Message;
use crate::model::moving::{Cut, CutNodes};
use crate::model::node_capacity::NodeCapacity;
use crate::model::qos2::Qos2InFlight;
use crate::model::session::Adoptions;
use crate::model::subscriptions::subscribers::Subscription;
use crate::model::subscriptions::subscription_size::Keys;
use crate::peers::members::Counts;

/// A handle to the routing stage.
pub(crate) type Routes = CohortStage<Item, Answer>;

/// A request to the routing stage.
pub(crate) enum Item {
    /// Routes messages of a client.
    Publish(Publication),
    /// Routes and retains messages that the broker publishes.
    System(Vec<Arc<Message>>),
    /// Adds subscriptions, and delivers retained messages.
    Subscribe { client: Subscriber, requests: Vec<SubscriptionRequest> },
    /// Delivers retained messages that did not fit the limits of one cohort when the client subscribed.
    Retained(PendingRetained, Option<Permit>),
    /// Removes subscriptions of a client.
    Unsubscribe { client: ClientKey, keys: Vec<Box<str>> },
    /// Removes subscriptions of a session that has ended, and the client itself with the last of them.
    Forget { client: ClientKey, keys: Keys, is_last: bool },
    /// Returns retained messages of a topic filter.
    Browse(BrowseRequest),
    /// Returns retained messages and deletions that another node may lack.
    Changed(ChangedRequest),
    /// Removes some of the expired retained messages.
    Sweep,
    /// Reserves this many message IDs and as many delivery IDs.
    Reserve(u64),
    /// Moves messages that were queued for a lost node.
    HandOver(HandingOver),
    /// Divides this node's messages between the two copies of a session that moves away, if the other nodes are ready.
    Cut(Box<(Cut, CutNodes)>),
    /// Returns the subscriptions of a client with these keys.
    Subscriptions { client: ClientKey, keys: Vec<Box<str>> },
    /// Records that a client with shared subscriptions connected or disconnected.
    Presence { client: ClientKey, online: bool },
    /// Sets the numbers of online members of shared subscriptions at a node; `None` for this node.
    Members { node: Option<ClientKey>, counts: Counts },
}

impl Item {
    /// Whether the request may append records or make deliveries.
    pub(crate) fn may_append_or_deliver(&self) -> bool {
        match self {
            Self::Publish(_)
            | Self::System(_)
            | Self::Subscribe { .. }
            | Self::Retained(..)
            | Self::Sweep
            | Self::HandOver(_)
            | Self::Cut(..) => true,
            Self::Unsubscribe { .. }
            | Self::Forget { .. }
            | Self::Presence { .. }
            | Self::Members { .. }
            | Self::Subscriptions { .. }
            | Self::Browse(_)
            | Self::Reserve(_)
            | Self::Changed(_) => false,
        }
    }
}

/// A subscribing client.
#[derive(Clone)]
pub(crate) struct Subscriber {
    pub(crate) key: ClientKey,
    /// The ID of its session in the journal; 0 if not persistent.
    pub(crate) durable_id: u64,
    pub(crate) identity: Identity,
    pub(crate) adoptions: Adoptions,
    /// Whether its session was recovered or adopted together with messages.
    pub(crate) has_messages: bool,
}

/// Messages that were queued for a lost node or by a lost node, in order.
#[derive(Clone)]
pub(crate) struct HandingOver {
    /// The ID of the lost node's session in the journal, or of the awaited handover with its messages.
    pub(crate) from: u64,
    /// The node that adopted the lost node's sessions, or for which the lost node had queued the messages; `None` for
    /// this node.
    pub(crate) to: Option<ClientKey>,
    /// The number of the adoption, if the messages are for adopted sessions.
    pub(crate) adoption: Option<u32>,
    /// The client identifier of the lost node, if the messages are those that it had queued.
    pub(crate) publisher: Option<Arc<str>>,
    pub(crate) messages: Vec<Handed>,
    /// `None` unless these are the last messages.
    pub(crate) last: Option<LastHanded>,
}

/// The end of a handover.
#[derive(Clone)]
pub(crate) struct LastHanded {
    /// The session for the lost node, and the keys of its subscriptions. `None` if there is no such session, or if the
    /// lost node had queued the messages.
    pub(crate) session: Option<(ClientKey, Vec<Box<str>>)>,
}

/// A queued message.
#[derive(Clone)]
pub(crate) struct Handed {
    pub(crate) message: Arc<Message>,
    pub(crate) how: How,
    /// The delivery's ID in the journal.
    pub(crate) number: u64,
}

/// One requested subscription.
#[derive(Clone)]
pub(crate) struct SubscriptionRequest {
    /// Identifies the subscription: the topic filter as written, including the group, and the content filter.
    pub(crate) key: Box<str>,
    pub(crate) content: Option<Content>,
    pub(crate) options: SubscribeOptions,
    pub(crate) identifier: Option<NonZero<u32>>,
    pub(crate) covered: Covered,
    /// Whether to deliver only retained messages of QoS 0, because the session already has the others.
    pub(crate) only_at_most_once: bool,
}

/// Retained messages to be delivered to a new subscriber.
pub(crate) struct PendingRetained {
    pub(crate) client: ClientKey,
    pub(crate) requests: Vec<SubscriptionRequest>,
    pub(crate) progress: RetainedProgress,
}

/// The progress of delivering retained messages to a new subscriber.
#[derive(Default)]
pub(crate) struct RetainedProgress {
    /// The index of the current subscription, and whether topics below `$SYS` are examined for it.
    pub(crate) request: usize,
    pub(crate) is_system: bool,
    /// The last examined topic.
    pub(crate) after: Option<Box<str>>,
    /// Numbers of topics examined, and of messages delivered and omitted.
    pub(crate) examined: usize,
    pub(crate) delivered: usize,
    pub(crate) left_out: usize,
}

/// A page of the retained messages, in the order of their topics.
pub(crate) struct BrowseRequest {
    pub(crate) filter: String,
    /// The last topic of the previous page.
    pub(crate) after: Option<String>,
    /// Maximum numbers of messages, and of topics examined.
    pub(crate) most: usize,
    pub(crate) topics: usize,
}

/// A page of the retained messages and deletions that arrived since a time, in the order of their topics.
pub(crate) struct ChangedRequest {
    /// The time on the runtime's clock. If it is zero, also those that were recovered.
    pub(crate) since: Duration,
    /// The last topic of the previous page.
    pub(crate) after: Option<Box<str>>,
}

/// A response of the routing stage.
pub(crate) enum Answer {
    /// The messages were routed, except for those beyond the delivery limit, which are unchanged.
    Published(Publication),
    /// The client is subscribed; some of its retained messages did not fit the limits of one cohort.
    PendingRetained(PendingRetained),
    /// Retained messages, and the last examined topic if there may be more.
    Retained(Vec<Arc<Message>>, Option<Box<str>>),
    /// Expired retained messages were removed. True if none is left.
    Swept(bool),
    /// The first of the reserved IDs.
    Reserved(FirstIds),
    /// The journals of the nodes that were also asked to divide their messages; empty if a node has another journal.
    Cut(Vec<String>),
    /// Subscriptions by key.
    Subscriptions(Vec<(Box<str>, Subscription)>),
    /// The table was changed.
    Done,
}

/// The result for a message that the full journal cannot store. A publisher that retransmits gets no acknowledgement; any
/// other gets [`Reason::QUOTA_EXCEEDED`].
pub(crate) const JOURNAL_FULL: Reason = Reason::SERVER_BUSY;

/// The result for a message that is not routed because the queue for another node is full. Used only within the stage.
pub(crate) const NODE_FULL: Reason = Reason(0xFF);

/// Messages of one client, in order. The response returns them with the results, so that their memory is reused.
#[derive(Default)]
pub(crate) struct Publication {
    pub(crate) messages: Vec<Arc<Message>>,
    /// The shared state of the QoS 2 messages.
    pub(crate) begun: Option<Arc<Qos2InFlight>>,
    /// The result for each routed message; empty in a request. If there are fewer results than messages, the
    /// publisher [waits](DeliveryLimiter::acquire) and sends the rest again.
    pub(crate) reasons: Vec<Reason>,
    /// The permit of a publisher that waited.
    pub(crate) permit: Option<Permit>,
    /// Whether the messages were routed and appended while the disk made no progress. It is then unknown whether they
    /// would survive a crash.
    pub(crate) is_late: bool,
    /// Approximate number of deliveries per message.
    pub(crate) each: usize,
    /// The partition of all receivers of this publisher's messages, if there is only one.
    pub(crate) near: Option<u16>,
    /// The full queue for another node, if there was one. The publisher waits for it, and then sends the rest again.
    pub(crate) full: Option<Arc<NodeCapacity>>,
    /// Whether the publisher has waited for the maximum time.
    pub(crate) insists: bool,
}

/// The router's first unused message ID and delivery ID.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstIds {
    pub(crate) message: u64,
    pub(crate) delivery: u64,
}
