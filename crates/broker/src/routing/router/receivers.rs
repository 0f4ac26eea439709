//! Decides which groups and clients receive a message, and with which options.

use std::sync::Arc;

use phalanx_mqtt::{QoS, RetainHandling, SubscribeOptions};

use crate::access::Covered;
use crate::events::drops::Dropped;
use crate::model::delivery::{How, Identifiers};
use crate::model::message::{Message, Source};
use crate::model::subscriptions::group::Group;
use crate::model::subscriptions::subscribers::Subscription;
use crate::peers::Peers;
use crate::routing::router::clients::Client;

/// The subscription of every other node to all messages to be retained.
pub(super) const RETAINING: Subscription = Subscription {
    options: SubscribeOptions {
        qos: QoS::ExactlyOnce,
        no_local: false,
        retain_as_published: true,
        retain_handling: RetainHandling::DoNotSend,
    },
    identifier: None,
    covered: Covered::UNKNOWN,
};

/// Whether this node chooses a member of the group for the message. For a message of another node, that node has already
/// chosen this one for the groups that it names.
pub(super) fn is_for(message: &Message, group: &Group) -> bool {
    match message.source {
        Source::Here => true,
        Source::Group(id) => group.id == id,
        Source::Node | Source::Retained | Source::Handed(_) | Source::Mark(_) | Source::Cut => {
            false
        }
    }
}

/// Whether `client` published the message, with this session or with another one of the same identifier
/// (MQTT-3.8.3-3).
pub(super) fn is_by(message: &Message, client: &Client) -> bool {
    message.from == Some(client.key)
        || message.publisher.as_deref() == Some(&*client.identity.client)
}

/// Whether a client must not get a message although it matches. `node` is the journal of the node that sent the message.
/// Another node gets only messages published here, because the publisher's node has sent it the others. An adopted
/// session gets the messages that `node` hands over and, after that handover, those that it sends. Other sessions get
/// only the latter.
pub(super) fn is_excluded(
    client: &Client,
    message: &Message,
    node: Option<&str>,
    peers: &Option<Arc<Peers>>,
) -> bool {
    if client.is_node {
        return message.source != Source::Here;
    }
    let adoptions = client.adoptions.as_deref().unwrap_or_default();
    let due = peers
        .as_ref()
        .zip(node)
        .and_then(|(peers, node)| peers.handovers.oldest_awaited(adoptions, node));
    let Source::Handed(adoption) = message.source else { return due.is_some() };
    // A node that relays a lost node's messages may have handed over its own messages before.
    let place = |adoption| adoptions.iter().position(|other| *other == adoption);
    let Some(at) = place(adoption) else { return true };
    due.and_then(place).is_some_and(|due| due < at)
}

/// The options of a delivery through one subscription.
pub(super) fn how(own: Subscription, message: &Message) -> How {
    How {
        qos: own.options.qos.min(message.qos),
        retain: own.options.retain_as_published && message.retain,
        identifiers: Identifiers::of(own.identifier),
    }
}

/// A message's description in the log.
pub(super) fn dropped(message: &Message) -> Dropped<'_> {
    Dropped { topic: Some(&message.topic), ..Dropped::default() }
}
