//! Sends the retained messages and the deletions that another node may lack: those since the last lane, because messages of
//! QoS 0 are lost while there is none, or all if the other node joins or either has restarted. The node retains those that
//! are later than its own.

use std::sync::Arc;
use std::time::Duration;

use phalanx::sleep;
use phalanx::time::now;
use phalanx_mqtt::{Delivery, Packet, PropertyBuffer, Publish, Version};

use crate::context::Context;
use crate::events::drops::{DropReason, Dropped};
use crate::lane::Lane;
use crate::model::message::Message;
use crate::model::subscriptions::group_id::sync_id;
use crate::requests::{Answer, ChangedRequest, Item};
use crate::session::operations::RETRY_DELAY;

/// Maximum number of messages in a page, and the size in bytes up to which messages are added.
const MAX_PAGE_MESSAGES: usize = 128;
const MAX_PAGE_BYTES: usize = 64 * 1024;

/// Sends the messages and deletions that arrived since a time, in packets of at most `max_packet_bytes` bytes. Ends
/// early if the lane ends.
pub(super) async fn send(
    context: &Context,
    lane: &Lane,
    (since, max_packet_bytes): (Duration, usize),
) {
    let mut after = None;
    while !lane.is_closed() {
        let request = Item::Changed(ChangedRequest { since, after: after.clone() });
        let Ok(Answer::Retained(changed, next)) = context.stages.routing.call(request).await else {
            // The broker is busy.
            sleep(RETRY_DELAY).await;
            continue;
        };
        let mut left = &changed[..];
        while !left.is_empty() && !lane.is_closed() {
            let (page, rest) = left.split_at(page_length(left));
            left = rest;
            lane.wait_for_capacity().await;
            lane.add(page.iter().filter_map(|message| {
                let packet =
                    Some(packet(message)).filter(|packet| packet.len() <= max_packet_bytes);
                if packet.is_none() {
                    let what = || Dropped { topic: Some(&message.topic), ..Dropped::default() };
                    context.counters.drops.add(DropReason::PacketTooLarge, 1, what);
                }
                packet
            }));
        }
        match next {
            None => return,
            next => after = next,
        }
    }
}

/// The number of messages of the next page.
fn page_length(messages: &[Arc<Message>]) -> usize {
    let mut bytes = 0;
    let is_within = |message: &&Arc<Message>| {
        let is_within = bytes < MAX_PAGE_BYTES;
        bytes += message.size();
        is_within
    };
    messages.iter().take(MAX_PAGE_MESSAGES).take_while(is_within).count()
}

/// Encodes a retained message or a deletion as a packet.
fn packet(message: &Message) -> Vec<u8> {
    let (mut properties, mut bytes) = (PropertyBuffer::new(), Vec::new());
    let identifiers = [&[sync_id(message.qos)][..], &message.stamp().identifiers()].concat();
    message.write_properties(&mut properties, &identifiers, now());
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
