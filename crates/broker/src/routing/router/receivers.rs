//! Receivers of a message: which groups and clients get it, and how.

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

/// The subscription of each other node to all messages that are to be retained.
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

/// Whether a member of the group gets the message: another node has chosen among the members of all nodes.
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

/// Whether a client does not get a message that it wants, which came from the node with this journal. Another node does
/// not: the publisher's node has sent it to all that want it. An adopted session gets what that node hands over, and
/// after that what it sends; other sessions get what it sends.
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
    let due = peers.as_ref().zip(node).and_then(|(own, node)| own.handovers.due(adoptions, node));
    let Source::Handed(adoption) = message.source else { return due.is_some() };
    // A lost node's messages may come after the node's that has relayed them.
    let place = |adoption| adoptions.iter().position(|own| *own == adoption);
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
