//! Encodes messages for a client's connection.

use std::time::Duration;

use phalanx_mqtt::{Delivery, Packet, Property, PropertyBuffer, Publish, Version};
use phalanx_store::Entry;

use crate::access::NODE_CLIENTS;
use crate::config::Limits;
use crate::events::drops::{DropReason, Drops};
use crate::model::delivery::How;
use crate::model::message::Message;
use crate::model::session::Attachment;
use crate::model::topic_aliases::may_have_alias;

/// The context in which messages are written.
pub(crate) struct SendContext<'d> {
    pub(crate) limits: &'d Limits,
    pub(crate) scratch: &'d mut PropertyBuffer,
    /// Unused output buffers.
    pub(crate) spares: &'d mut Vec<Vec<u8>>,
    /// Collects records for the WAL.
    pub(crate) records: &'d mut Entry,
    pub(crate) now: Duration,
    pub(crate) drops: &'d Drops,
    /// Whether to send output immediately instead of waking a waiting sender.
    pub(crate) at_once: bool,
}

/// Appends a PUBLISH. If the message has to be dropped, appends nothing and returns the reason.
pub(super) fn write(
    (attachment, client): (&mut Attachment, &str),
    message: &Message,
    how: &How,
    (delivery, duplicate): (Delivery, bool),
    context: &mut SendContext<'_>,
) -> Result<(), DropReason> {
    if message.is_invalid {
        return Err(DropReason::Invalid);
    }
    let SendContext { scratch, spares, now, .. } = context;
    attachment.take_spare(spares);
    let stamped;
    let mut identifiers = how.identifiers.get();
    if how.retain && message.stamp().is_set() && client.starts_with(NODE_CLIENTS) {
        stamped = [identifiers, &message.stamp().identifiers()].concat();
        identifiers = &stamped;
    }
    let mut encode = |attachment: &mut Attachment, alias: Alias| {
        let properties = match (message.properties(identifiers), alias) {
            (Some(properties), Alias::None) => properties,
            _ => {
                message.write_properties(scratch, identifiers, *now);
                if let Alias::New(number) | Alias::Known(number) = alias {
                    // Cannot fail: the property is short.
                    let _ = scratch.push(Property::TopicAlias(number));
                }
                scratch.get()
            }
        };
        let publish = Publish {
            topic: if matches!(alias, Alias::Known(_)) { "" } else { &message.topic },
            payload: &message.payload,
            delivery,
            retain: how.retain,
            duplicate,
            properties,
        };
        let before = attachment.out.len();
        let written = Packet::Publish(publish).encode(attachment.version, &mut attachment.out);
        let fits = written.is_ok() && attachment.out.len() - before <= attachment.most;
        if !fits {
            attachment.out.truncate(before);
        }
        fits
    };
    let alias =
        if attachment.most_aliases > 0 { alias(attachment, &message.topic) } else { Alias::None };
    if encode(attachment, alias) {
        if let Alias::New(number) = alias {
            attachment.aliases.insert(message.topic.as_str().into(), number);
            attachment.alias_bytes += message.topic.len();
        }
        return Ok(());
    }
    // A packet that is too long with an alias may fit without: an alias makes it longer unless it replaces a long topic.
    match alias {
        Alias::New(_) | Alias::Known(_) if encode(attachment, Alias::None) => Ok(()),
        _ => Err(DropReason::PacketTooLarge),
    }
}

#[derive(Clone, Copy)]
enum Alias {
    None,
    /// Defined together with the topic.
    New(u16),
    /// Replaces the topic.
    Known(u16),
}

/// Assigns topic aliases to the first topics of a connection.
fn alias(attachment: &Attachment, topic: &str) -> Alias {
    if attachment.version == Version::V3 {
        return Alias::None;
    }
    match attachment.aliases.get(topic) {
        Some(number) => Alias::Known(*number),
        None if attachment.aliases.len() < usize::from(attachment.most_aliases)
            && may_have_alias(attachment.most_aliases, attachment.alias_bytes + topic.len()) =>
        {
            Alias::New(attachment.aliases.len() as u16 + 1)
        }
        None => Alias::None,
    }
}
