//! The retained messages for a node that joins: all of this node's, of which it keeps those whose topics it has no
//! message for. Later changes are forwarded as they are published.

use phalanx::sleep;
use phalanx::time::now;
use phalanx_mqtt::{Delivery, Packet, PropertyBuffer, Publish, Version};

use crate::context::Context;
use crate::lane::Lane;
use crate::model::group_id::SYNC_ID;
use crate::model::message::Message;
use crate::requests::{Answer, Item};
use crate::session::operations::RETRY_DELAY;

/// Messages read at once.
const PAGE: usize = 128;

/// Sends all retained messages, or as long as the lane lasts.
pub(super) async fn send(context: &Context, lane: &Lane) {
    let mut from = 0;
    while !lane.is_closed() {
        let item = Item::Browse { filter: "#".into(), from, most: PAGE };
        match context.stages.routing.call(item).await {
            Ok(Answer::Retained(messages, is_end)) => {
                let packets = messages.iter().map(|message| packet(message));
                lane.add(packets).await;
                if is_end {
                    return;
                }
                from += messages.len();
            }
            // The broker is busy.
            _ => sleep(RETRY_DELAY).await,
        }
    }
}

/// A retained message as a packet.
fn packet(message: &Message) -> Vec<u8> {
    let (mut properties, mut bytes) = (PropertyBuffer::new(), Vec::new());
    message.write_properties(&mut properties, &[SYNC_ID], now());
    let packet = Packet::Publish(Publish {
        delivery: Delivery::AtMostOnce,
        duplicate: false,
        retain: true,
        topic: &message.topic,
        properties: properties.get(),
        payload: &message.payload,
    });
    // A message that was received can be sent.
    let _ = packet.encode(Version::V5, &mut bytes);
    bytes
}
