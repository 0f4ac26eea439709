//! Input of a broker: packets of either version, one after another.
//!
//! A decoded packet must be encoded to bytes that decode to the same, and lazily decoded parts (properties,
//! subscriptions) must be readable as far as they were validated.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_mqtt::{Frame, Packet, Properties, Version, topic};

/// Every validated byte of properties is read.
fn all(properties: Properties<'_>) {
    let mut again = phalanx_mqtt::PropertyBuffer::new();
    properties.iter().for_each(|property| again.push(property).expect("it was read"));
    assert_eq!(again.get(), properties);
}

fuzz_target!(|data: &[u8]| {
    let Some((&first, mut bytes)) = data.split_first() else { return };
    let mut version = if first & 1 == 0 { Version::V3 } else { Version::V5 };
    while let Ok(Some(frame)) = Frame::split(bytes, 1 << 20) {
        let length = frame.length();
        let Ok(packet) = Packet::decode(frame, version) else { return };
        match packet {
            Packet::Connect(connect) => {
                version = connect.version;
                all(connect.properties);
                connect.will.iter().for_each(|will| all(will.properties));
            }
            Packet::Publish(publish) => {
                all(publish.properties);
                assert!(publish.topic.is_empty() || topic::is_name(publish.topic));
            }
            Packet::Subscribe(subscribe) => {
                all(subscribe.properties);
                assert!(subscribe.filters.iter().count() > 0);
                for (filter, _) in subscribe.filters.iter() {
                    if topic::is_filter(filter) {
                        // Without a wildcard it matches only itself.
                        assert!(!topic::is_name(filter) || topic::matches(filter, filter));
                    }
                    let _ = topic::shared(filter);
                }
            }
            _ => (),
        }
        let mut out = Vec::new();
        packet.encode(version, &mut out).expect("a decoded packet can be encoded");
        let again = Frame::split(&out, 1 << 20).expect("a packet").expect("the whole of it");
        assert_eq!(Packet::decode(again, version).expect("it can be read"), packet);
        bytes = &bytes[length..];
    }
});
