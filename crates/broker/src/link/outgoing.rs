//! Packets to the remote broker.

use std::io;

use phalanx_mqtt::{
    Ack, Delivery, Disconnect, Frame, Kind, Packet, Property, PropertyBuffer, Publish, Version,
    topic,
};

use crate::events::drops::DropReason;
use crate::link::incoming::{client_reason, decode_error};
use crate::link::{Link, via};

impl Link {
    /// Maximum number of bytes by which a packet grows on the way to a remote broker.
    pub(crate) fn growth(topics: usize, broker_id: Option<&str>) -> usize {
        topics + broker_id.map_or(0, via::size)
    }

    /// Converts the packets in `bytes` for the remote broker, and appends them to `out`.
    pub(super) fn put(&self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let mut at = 0;
        while let Some(frame) =
            Frame::split(&bytes[at..], Frame::MAX_PACKET).map_err(decode_error)?
        {
            let whole = &bytes[at..at + frame.length()];
            at += frame.length();
            match frame.kind() {
                Kind::Publish | Kind::Disconnect => {
                    match Packet::decode(frame, Version::V5).map_err(decode_error)? {
                        Packet::Publish(publish) => self.send(&publish, out)?,
                        Packet::Disconnect(end) => {
                            let end = Disconnect { reason: client_reason(end.reason), ..end };
                            Packet::Disconnect(end)
                                .encode(Version::V5, out)
                                .map_err(decode_error)?;
                        }
                        _ => (),
                    }
                }
                _ => out.extend_from_slice(whole),
            }
        }
        debug_assert_eq!(at, bytes.len(), "a session writes whole packets");
        Ok(())
    }

    /// Appends a message with its remote topic, or drops it.
    fn send(&self, publish: &Publish<'_>, out: &mut Vec<u8>) -> io::Result<()> {
        let own = self.options.broker_id.as_deref();
        let ids = publish.properties.iter().filter_map(|property| match property {
            Property::SubscriptionIdentifier(id) => Some(id),
            _ => None,
        });
        let remote = self.options.map.to_remote(publish.topic, ids);
        let Some(remote) = remote.filter(|remote| topic::is_name(remote)) else {
            return self.skip(publish, out, DropReason::BridgeInvalid);
        };
        if own.is_some_and(|id| via::has_returned(publish.properties, id)) {
            return self.skip(publish, out, DropReason::BridgeLoop);
        }
        let (mut alone, mut with_alias) = (PropertyBuffer::new(), PropertyBuffer::new());
        for property in publish.properties {
            if !matches!(property, Property::SubscriptionIdentifier(_)) {
                alone.push(property).map_err(decode_error)?;
            }
        }
        if let Some(own) = own {
            alone.push(Property::User(via::NAME, own)).map_err(decode_error)?;
        }
        let alias = self.outgoing.borrow_mut().assign(&remote);
        if let Some((alias, _)) = alias {
            with_alias.append(alone.get());
            with_alias.push(Property::TopicAlias(alias)).map_err(decode_error)?;
        }
        let mut encode = |topic, properties| {
            let retain = publish.retain && self.options.retain_available;
            let packet = Packet::Publish(Publish { topic, retain, properties, ..*publish });
            packet.encode_within(Version::V5, self.options.max_remote_packet, out).is_ok()
        };
        let is_sent = match alias {
            None => encode(&remote, alone.get()),
            Some((_, true)) if encode(&remote, with_alias.get()) => true,
            Some((_, false)) if encode("", with_alias.get()) => true,
            // The packet may fit without the alias.
            Some((_, is_new)) => {
                if is_new {
                    self.outgoing.borrow_mut().forget(&remote);
                }
                encode(&remote, alone.get())
            }
        };
        if !is_sent {
            return self.skip(publish, out, DropReason::PacketTooLarge);
        }
        self.options.status.sent.add(1);
        Ok(())
    }

    /// Drops a message, and acknowledges it as if the remote broker had.
    fn skip(&self, publish: &Publish<'_>, out: &mut Vec<u8>, reason: DropReason) -> io::Result<()> {
        self.count_drop(publish.topic, reason, false);
        let answer = match publish.delivery {
            Delivery::AtMostOnce => return Ok(()),
            Delivery::AtLeastOnce(id) => Packet::PubAck(Ack::success(id)),
            // The remote broker will answer PUBREL with "packet identifier not found", which completes the message.
            Delivery::ExactlyOnce(id) => Packet::PubRec(Ack::success(id)),
        };
        answer.encode(Version::V5, &mut self.injected.borrow_mut()).map_err(decode_error)?;
        // PINGRESP wakes the reader, which then takes the acknowledgement.
        Packet::PingReq.encode(Version::V5, out).map_err(decode_error)
    }
}
