//! Sends all retained messages to a node that joins. The node keeps those for whose topics it has no retained message.
//! Later changes are forwarded as they are published.

use std::sync::Arc;

use phalanx::sleep;
use phalanx::time::now;
use phalanx_mqtt::{Delivery, Packet, PropertyBuffer, Publish, Version};

use crate::context::Context;
use crate::lane::Lane;
use crate::model::message::Message;
use crate::model::subscriptions::group_id::sync_id;
use crate::requests::{Answer, BrowseRequest, Item};
use crate::session::operations::RETRY_DELAY;

/// Maximum number of messages in a page, and the size in bytes up to which messages are added.
const PAGE: usize = 128;
const PAGE_BYTES: usize = 64 * 1024;

/// Sends the current retained messages, as long as the lane lasts.
pub(super) async fn send(context: &Context, lane: &Lane) {
    let all =
        || BrowseRequest { filter: "#".into(), after: None, most: usize::MAX, topics: usize::MAX };
    let browse = || Item::Browse(all());
    let all = ask(context, lane, browse).await;
    let mut left = &all[..];
    while !left.is_empty() && !lane.is_closed() {
        let (page, rest) = left.split_at(page(left));
        left = rest;
        lane.room().await;
        // Nothing is awaited between the answer and `add`: a message that was replaced meanwhile would arrive after its
        // replacement.
        let current = ask(context, lane, || Item::StillRetained(page.to_vec())).await;
        lane.add(current.iter().map(|message| packet(message)));
    }
}

/// The number of messages of the next page.
fn page(messages: &[Arc<Message>]) -> usize {
    let mut bytes = 0;
    let is_within = |message: &&Arc<Message>| {
        let is_within = bytes < PAGE_BYTES;
        bytes += message.size();
        is_within
    };
    messages.iter().take(PAGE).take_while(is_within).count()
}

/// Asks the router until it answers. Returns no messages if the lane is closed.
async fn ask(context: &Context, lane: &Lane, item: impl Fn() -> Item) -> Vec<Arc<Message>> {
    while !lane.is_closed() {
        match context.stages.routing.call(item()).await {
            Ok(Answer::Retained(messages, _)) => return messages,
            // The broker is busy.
            _ => sleep(RETRY_DELAY).await,
        }
    }
    Vec::new()
}

/// Encodes a retained message as a packet.
fn packet(message: &Message) -> Vec<u8> {
    let (mut properties, mut bytes) = (PropertyBuffer::new(), Vec::new());
    message.write_properties(&mut properties, &[sync_id(message.qos)], now());
    let packet = Packet::Publish(Publish {
        delivery: Delivery::AtMostOnce,
        duplicate: false,
        retain: true,
        topic: &message.topic,
        properties: properties.get(),
        payload: &message.payload,
    });
    // Cannot fail: the message arrived in a packet.
    let _ = packet.encode(Version::V5, &mut bytes);
    bytes
}
