//! Packets from the remote broker.

use std::io;

use phalanx::time::now;
use phalanx_mqtt::{
    Ack, Delivery, Frame, Kind, Packet, Property, PropertyBuffer, Publish, Reason, Version, topic,
};

use crate::events::drops::{DropReason, Dropped};
use crate::link::{Link, via};
use crate::model::message;
use crate::model::subscriptions::trie::is_shallow;

impl Link {
    /// Processes the complete packets in `input`, and appends those for the session to `buffer`. Returns the length of
    /// the processed packets.
    pub(super) fn take(&self, input: &[u8], buffer: &mut Vec<u8>) -> io::Result<usize> {
        let mut taken = 0;
        while let Some(frame) =
            Frame::split(&input[taken..], self.options.max_local_packet).map_err(decode_error)?
        {
            if self.is_ended.get() {
                break;
            }
            let bytes = &input[taken..taken + frame.length()];
            taken += frame.length();
            match frame.kind() {
                Kind::PubComp if self.complete_release(frame) => (),
                Kind::PubAck | Kind::PubRec | Kind::PubRel | Kind::PubComp => {
                    self.count_refused(frame);
                    buffer.extend_from_slice(bytes);
                }
                Kind::PingResp | Kind::UnsubAck => (),
                _ => match Packet::decode(frame, Version::V5).map_err(decode_error)? {
                    Packet::Publish(publish) => self.receive(&publish, buffer)?,
                    Packet::Disconnect(disconnect) => {
                        self.options.status.record_disconnect(disconnect.reason);
                        self.is_ended.set(true);
                    }
                    // SUBACK usually arrives during the login.
                    Packet::SubAck(ack) => {
                        self.suback.complete();
                        self.options.map.check(&ack).map_err(io::Error::other)?;
                    }
                    _ => return Err(protocol_error("a packet that servers do not send")),
                },
            }
        }
        Ok(taken)
    }

    /// Completes the release that a PUBCOMP answers. Returns false if it answers a PUBREL of the session.
    fn complete_release(&self, frame: Frame<'_>) -> bool {
        if self.releases.are_complete() {
            return false;
        }
        match Packet::decode(frame, Version::V5) {
            Ok(Packet::PubComp(ack)) => self.releases.complete(ack.id),
            _ => false,
        }
    }

    /// Counts a message that the remote broker refuses. The session does not send it again.
    fn count_refused(&self, frame: Frame<'_>) {
        let reason = match Packet::decode(frame, Version::V5) {
            Ok(Packet::PubAck(ack) | Packet::PubRec(ack)) => ack.reason,
            _ => return,
        };
        if reason.is_failure() {
            let what = || Dropped {
                client: Some(&self.options.client),
                origin: Some(self.options.origin),
                ..Dropped::default()
            };
            self.options.counters.drops.add(DropReason::BridgeRefused, 1, what);
        }
    }

    /// Appends a message with its local topic, or acknowledges and drops it.
    fn receive(&self, publish: &Publish<'_>, buffer: &mut Vec<u8>) -> io::Result<()> {
        if publish.retain {
            self.suback.postpone(now());
        }
        let (mut alias, mut properties) = (None, PropertyBuffer::new());
        if publish.properties.are_user() {
            properties.append(publish.properties);
        } else {
            for property in publish.properties {
                match property {
                    Property::TopicAlias(number) => alias = Some(number),
                    Property::SubscriptionIdentifier(_) => (),
                    other => properties.push(other).map_err(decode_error)?,
                }
            }
        }
        let mut aliases = self.incoming.borrow_mut();
        let name = match alias {
            Some(alias) => aliases.resolve(publish.topic, alias),
            None => Some(publish.topic).filter(|topic| !topic.is_empty()),
        };
        let name = name.ok_or_else(|| protocol_error("a topic alias that is not defined"))?;
        let Some(local) = self.options.map.to_local(name) else {
            self.reject(publish, name, DropReason::BridgeUnmapped);
            return Ok(());
        };
        let own = self.options.broker_id.as_deref();
        if own.is_some_and(|id| via::has_passed(publish.properties, id)) {
            self.reject(publish, name, DropReason::BridgeLoop);
            return Ok(());
        }
        if let Some(own) = own {
            properties
                .push(Property::User(via::NAME, &via::received(own)))
                .map_err(decode_error)?;
        }
        let forwarded = Publish { topic: &local, properties: properties.get(), ..*publish };
        let is_valid = topic::is_name(&local)
            && is_shallow(&local)
            && message::check(&local, forwarded.properties, publish.payload).is_ok();
        let packet = Packet::Publish(forwarded);
        let max_packet = self.options.max_local_packet;
        if !is_valid || packet.encode_within(Version::V5, max_packet, buffer).is_err() {
            self.reject(publish, name, DropReason::BridgeInvalid);
            return Ok(());
        }
        self.options.status.received.add(1);
        Ok(())
    }

    /// Drops a message, and acknowledges it, so that the remote broker does not send it again.
    fn reject(&self, publish: &Publish<'_>, name: &str, reason: DropReason) {
        self.count_drop(name, reason, true);
        let answer = match publish.delivery {
            Delivery::AtMostOnce => return,
            Delivery::AtLeastOnce(id) => Packet::PubAck(Ack::success(id)),
            // The session will answer PUBREL with "packet identifier not found", which completes the message.
            Delivery::ExactlyOnce(id) => Packet::PubRec(Ack::success(id)),
        };
        // Cannot fail: the packet is short.
        let _ = answer.encode(Version::V5, &mut self.own_packets.borrow_mut());
    }

    pub(super) fn count_drop(&self, topic: &str, reason: DropReason, is_publisher: bool) {
        let what = || Dropped {
            topic: Some(topic),
            client: Some(&self.options.client),
            user: None,
            is_publisher,
            origin: Some(self.options.origin),
        };
        self.options.counters.drops.add(reason, 1, what);
    }

    /// Adds a PINGREQ to the link's own packets.
    pub(super) fn ping(&self) {
        // Cannot fail: the packet is short.
        let _ = Packet::PingReq.encode(Version::V5, &mut self.own_packets.borrow_mut());
    }
}

pub(super) fn protocol_error(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the remote broker sent {what}"))
}

pub(super) fn decode_error(error: phalanx_mqtt::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Converts the reason for DISCONNECT to the remote broker, because a client may not send every reason code.
pub(super) fn client_reason(reason: Reason) -> Reason {
    match reason {
        Reason::SUCCESS
        | Reason::DISCONNECT_WITH_WILL
        | Reason::UNSPECIFIED_ERROR
        | Reason::MALFORMED_PACKET
        | Reason::PROTOCOL_ERROR
        | Reason::IMPLEMENTATION_SPECIFIC_ERROR
        | Reason::TOPIC_NAME_INVALID
        | Reason::RECEIVE_MAXIMUM_EXCEEDED
        | Reason::TOPIC_ALIAS_INVALID
        | Reason::PACKET_TOO_LARGE
        | Reason::QUOTA_EXCEEDED
        | Reason::ADMINISTRATIVE_ACTION
        | Reason::PAYLOAD_FORMAT_INVALID => reason,
        _ => Reason::DISCONNECT_WITH_WILL,
    }
}
