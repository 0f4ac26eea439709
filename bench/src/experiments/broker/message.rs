//! Messages that are encoded once, then copied and patched, to keep the load generator cheap.

use std::num::NonZero;

use phalanx_kernels::workload::{Generator, Workload};
use phalanx_mqtt::{Delivery, Packet, Property, PropertyBuffer, Publish, QoS, Version};

use super::shape::{Setting, Shape};

pub(super) const TOPIC: &str = "bench/messages";
/// Number of distinct messages in the shape `filters`.
const EVENTS: usize = 4096;

/// An encoded packet without its id, time stamp and sender.
pub(super) struct Template {
    bytes: Vec<u8>,
    id_at: Option<usize>,
    payload_at: usize,
}

impl Template {
    fn new(qos: QoS, payload: usize, properties: &PropertyBuffer) -> Self {
        let delivery = match qos {
            QoS::AtMostOnce => Delivery::AtMostOnce,
            _ => Delivery::AtLeastOnce(NonZero::<u16>::MIN),
        };
        let mut bytes = Vec::new();
        let publish = Publish {
            topic: TOPIC,
            payload: &vec![b'.'; payload],
            delivery,
            retain: false,
            duplicate: false,
            properties: properties.get(),
        };
        Packet::Publish(publish).encode(Version::V5, &mut bytes).expect("it is short");
        let id_at = (qos != QoS::AtMostOnce).then(|| behind_topic(&bytes));
        Self { payload_at: bytes.len() - payload, bytes, id_at }
    }

    /// Appends the packet to `out`.
    pub(super) fn write(&self, out: &mut Vec<u8>, id: NonZero<u16>, now: u64, from: u32) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        if let Some(at) = self.id_at {
            out[start + at..start + at + 2].copy_from_slice(&id.get().to_be_bytes());
        }
        let payload = &mut out[start + self.payload_at..];
        payload[..8].copy_from_slice(&now.to_be_bytes());
        payload[8..12].copy_from_slice(&from.to_be_bytes());
    }
}

/// The messages of a setting.
pub(super) fn templates(
    setting: Setting,
    payload: usize,
    workload: Workload,
    seed: u64,
) -> Vec<Template> {
    let mut properties = PropertyBuffer::new();
    let mut one = |pairs: &mut dyn Iterator<Item = (String, String)>| {
        properties.clear();
        for (name, value) in pairs {
            properties.push(Property::User(&name, &value)).expect("they are short");
        }
        Template::new(setting.qos, payload, &properties)
    };
    if setting.shape != Shape::Filters {
        let name = |n| (format!("name-{n}"), format!("val-{n}"));
        return vec![one(&mut (0..setting.properties).map(name))];
    }
    let mut generator = Generator::new(workload, seed);
    let event = |_| {
        let values = generator.values().into_iter().enumerate();
        one(&mut values.map(|(at, value)| (format!("a{at}"), value.to_string())))
    };
    (0..EVENTS).map(event).collect()
}

/// Topic filters with filters on message properties.
pub(super) fn filters(workload: Workload, seed: u64) -> impl Iterator<Item = String> {
    let mut generator = Generator::new(workload, seed);
    std::iter::repeat_with(move || {
        let query = generator.text().replace(" AND ", "&").replace(' ', "");
        format!("{TOPIC}?{query}")
    })
}

/// The sender and the time stamp of a PUBLISH.
pub(super) fn sent(packet: &[u8], payload: usize) -> (u32, u64) {
    let payload = &packet[packet.len() - payload..];
    let number = |at, length| {
        payload[at..at + length].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    (number(8, 4) as u32, number(0, 8))
}

/// The packet id of a PUBLISH of QoS 1; `None` for QoS 0.
pub(super) fn id(packet: &[u8]) -> Option<NonZero<u16>> {
    if packet[0] & 0x06 == 0 {
        return None;
    }
    let at = behind_topic(packet);
    NonZero::new(u16::from_be_bytes([packet[at], packet[at + 1]]))
}

/// The reason code of a PUBACK; without one it is a success.
pub(super) fn reason(packet: &[u8]) -> u8 {
    packet.get(behind_header(packet) + 2).copied().unwrap_or(0)
}

/// Offset of the first byte after the fixed header, whose length takes one to four bytes.
fn behind_header(packet: &[u8]) -> usize {
    2 + packet[1..].iter().take_while(|byte| **byte & 0x80 != 0).count()
}

/// Offset of the first byte after the topic of a PUBLISH.
fn behind_topic(packet: &[u8]) -> usize {
    let header = behind_header(packet);
    header + 2 + usize::from(u16::from_be_bytes([packet[header], packet[header + 1]]))
}

#[cfg(test)]
mod tests {
    use phalanx_mqtt::Frame;

    use super::*;

    #[test]
    fn reasons_follow_lengths_of_any_size() {
        assert_eq!(reason(&[0x40, 2, 0, 1]), 0);
        assert_eq!(reason(&[0x40, 4, 0, 1, 0x97, 0]), 0x97);
        assert_eq!(reason(&[0x40, 0x85, 0x01, 0, 1, 0x10]), 0x10);
    }

    #[test]
    fn patched_fields_are_decoded() {
        for (qos, properties) in
            [(QoS::AtMostOnce, 0), (QoS::AtLeastOnce, 0), (QoS::AtLeastOnce, 8)]
        {
            let setting = Setting { shape: Shape::Pair, qos, properties };
            let mut bytes = Vec::new();
            let id_of = NonZero::new(0x1234).unwrap();
            templates(setting, 32, Workload::W0, 1)[0].write(&mut bytes, id_of, 77, 5);
            let frame = Frame::split(&bytes, 4096).unwrap().unwrap();
            let Packet::Publish(publish) = Packet::decode(frame, Version::V5).unwrap() else {
                panic!("{bytes:?}");
            };
            assert_eq!((publish.topic, publish.payload.len()), (TOPIC, 32));
            assert_eq!(publish.properties.user().count(), properties);
            assert_eq!((publish.delivery.id(), sent(&bytes, 32)), (id(&bytes), (5, 77)));
            assert_eq!(id(&bytes), (qos == QoS::AtLeastOnce).then_some(id_of));
        }
    }
}
