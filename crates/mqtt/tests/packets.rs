//! The codec's public interface: a packet reads back as it was written, and invalid packets are refused.

use phalanx_mqtt::{
    Ack, Auth, ConnAck, Connect, Delivery, Disconnect, Error, Frame, Packet, PacketId, Properties,
    Property, PropertyBuffer, Publish, QoS, Reason, RetainHandling, SubAck, Subscribe,
    SubscribeOptions, SubscriptionBuffer, UnsubAck, Unsubscribe, Version, Will,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn decode(bytes: &[u8], version: Version) -> Result<Packet<'_>, Error> {
    let frame = Frame::split(bytes, Frame::MAX_PACKET)?.expect("a complete packet");
    assert_eq!(frame.length(), bytes.len());
    Packet::decode(frame, version)
}

/// Encodes `packet` and decodes it again; every shorter prefix is incomplete.
fn there_and_back(packet: Packet<'_>, version: Version) -> Result<(), TestCaseError> {
    let mut bytes = b"before".to_vec();
    packet.encode(version, &mut bytes).expect("the packet can be encoded");
    let bytes = &bytes[6..];
    prop_assert_eq!(decode(bytes, version), Ok(packet));
    for length in (0..bytes.len()).take(20) {
        let frame = Frame::split(&bytes[..length], Frame::MAX_PACKET);
        prop_assert!(frame.expect("a beginning").is_none());
    }
    Ok(())
}

/// A packet with truncated fields is refused; the decoder does not read past its end.
fn cut_short(packet: Packet<'_>, version: Version) {
    let mut bytes = Vec::new();
    packet.encode(version, &mut bytes).unwrap();
    if bytes.len() > 127 {
        return;
    }
    for length in 2..bytes.len() {
        let mut short = bytes[..length].to_vec();
        short[1] = (length - 2) as u8;
        if let Ok(short) = decode(&short, version) {
            assert!(may_be_cut(packet, short), "{short:?} is the beginning of {packet:?}");
        }
    }
}

/// Whether a beginning of `packet` is the valid packet `short`.
fn may_be_cut(packet: Packet<'_>, short: Packet<'_>) -> bool {
    match (packet, short) {
        // A payload and a list may end anywhere.
        (Packet::Publish(whole), Packet::Publish(short)) => {
            let payload = short.payload;
            whole.payload.starts_with(payload) && short == Publish { payload, ..whole }
        }
        (Packet::SubAck(whole), Packet::SubAck(short)) => {
            let reasons = short.reasons;
            whole.reasons.starts_with(reasons) && short == SubAck { reasons, ..whole }
        }
        (Packet::UnsubAck(whole), Packet::UnsubAck(short)) => {
            let reasons = short.reasons;
            whole.reasons.starts_with(reasons) && short == UnsubAck { reasons, ..whole }
        }
        (Packet::Subscribe(whole), Packet::Subscribe(short)) => {
            let mut both = whole.filters.iter().zip(short.filters.iter());
            both.all(|(whole, short)| whole == short)
                && (short.id, short.properties) == (whole.id, whole.properties)
        }
        // The properties may be omitted, and a reason that is success.
        (Packet::PubAck(whole), Packet::PubAck(short))
        | (Packet::PubRec(whole), Packet::PubRec(short))
        | (Packet::PubRel(whole), Packet::PubRel(short))
        | (Packet::PubComp(whole), Packet::PubComp(short)) => {
            short.id == whole.id && omits((short.reason, short.properties), whole.reason)
        }
        (Packet::Disconnect(whole), Packet::Disconnect(short)) => {
            omits((short.reason, short.properties), whole.reason)
        }
        _ => false,
    }
}

/// Whether an acknowledgement has no properties, and this reason or none.
fn omits((own, properties): (Reason, Properties<'_>), reason: Reason) -> bool {
    properties == Properties::NONE && (own == reason || own == Reason::SUCCESS)
}

fn text() -> impl Strategy<Value = String> {
    "[a-z0-9/ é🦀]{0,12}"
}

fn name() -> impl Strategy<Value = String> {
    "[a-z0-9/é$]{1,12}"
}

fn version() -> impl Strategy<Value = Version> {
    prop_oneof![Just(Version::V3), Just(Version::V5)]
}

fn qos() -> impl Strategy<Value = QoS> {
    (0u8..3).prop_map(|number| QoS::from_u8(number).unwrap())
}

fn id() -> impl Strategy<Value = PacketId> {
    (1..=u16::MAX).prop_map(|id| PacketId::new(id).unwrap())
}

/// Properties allowed in PUBLISH, and user properties, which most packets allow.
fn of_publish() -> impl Strategy<Value = PropertyBuffer> {
    let user = vec((text(), text()), 0..4);
    let publish_properties = (
        any::<Option<bool>>(),
        any::<Option<u32>>(),
        proptest::option::of(text()),
        proptest::option::of(vec(any::<u8>(), 0..200)),
        vec(1u32..0x0fff_ffff, 0..3),
    );
    (user, publish_properties).prop_map(
        |(user, (is_text, expiry, response, correlation, identifiers))| {
            let mut buffer = users(&user);
            let mut push = |property: Property<'_>| buffer.push(property).unwrap();
            is_text.into_iter().for_each(|value| push(Property::PayloadIsText(value)));
            expiry.into_iter().for_each(|value| push(Property::MessageExpiry(value)));
            response.iter().for_each(|value| push(Property::ResponseTopic(value)));
            correlation.iter().for_each(|value| push(Property::CorrelationData(value)));
            identifiers.into_iter().for_each(|n| push(Property::SubscriptionIdentifier(n)));
            buffer
        },
    )
}

fn users(user: &[(String, String)]) -> PropertyBuffer {
    let mut buffer = PropertyBuffer::new();
    user.iter().for_each(|(name, value)| buffer.push(Property::User(name, value)).unwrap());
    buffer
}

fn with_reason() -> impl Strategy<Value = PropertyBuffer> {
    (vec((text(), text()), 0..3), proptest::option::of(text())).prop_map(|(user, reason)| {
        let mut buffer = users(&user);
        reason.iter().for_each(|text| buffer.push(Property::ReasonString(text)).unwrap());
        buffer
    })
}

/// MQTT 3.1.1 has no properties.
fn properties(buffer: &PropertyBuffer, version: Version) -> Properties<'_> {
    if version == Version::V5 { buffer.get() } else { Properties::NONE }
}

proptest! {
    #[test]
    fn publish(
        version in version(), topic in name(), payload in vec(any::<u8>(), 0..300), qos in qos(), id in id(),
        retain: bool, duplicate: bool, buffer in of_publish(),
    ) {
        let delivery = match qos {
            QoS::AtMostOnce => Delivery::AtMostOnce,
            QoS::AtLeastOnce => Delivery::AtLeastOnce(id),
            QoS::ExactlyOnce => Delivery::ExactlyOnce(id),
        };
        let duplicate = duplicate && qos != QoS::AtMostOnce;
        let properties = properties(&buffer, version);
        let publish = Publish { topic: &topic, payload: &payload, delivery, retain, duplicate, properties };
        there_and_back(Packet::Publish(publish), version)?;
        cut_short(Packet::Publish(publish), version);
    }

    #[test]
    fn connect(
        version in version(), client_id in text(), clean_start: bool, keep_alive: u16,
        username in proptest::option::of(text()), password in proptest::option::of(vec(any::<u8>(), 0..20)),
        will in proptest::option::of((name(), vec(any::<u8>(), 0..20), qos(), any::<bool>(), any::<u32>())),
        user in vec((text(), text()), 0..3), most in 1u16..,
    ) {
        let mut buffer = users(&user);
        buffer.push(Property::ReceiveMaximum(most)).unwrap();
        let mut of_will = users(&user);
        of_will.push(Property::WillDelay(will.as_ref().map_or(0, |will| will.4))).unwrap();
        let password = password.filter(|_| version == Version::V5 || username.is_some());
        let connect = Connect {
            version,
            client_id: &client_id,
            clean_start,
            keep_alive,
            username: username.as_deref(),
            password: password.as_deref(),
            will: will.as_ref().map(|(topic, payload, qos, retain, _)| Will {
                topic, payload, qos: *qos, retain: *retain, properties: properties(&of_will, version),
            }),
            properties: properties(&buffer, version),
        };
        there_and_back(Packet::Connect(connect), version)?;
        cut_short(Packet::Connect(connect), version);
    }

    #[test]
    fn answers(
        version in version(), id in id(), code in any::<u8>(), buffer in with_reason(), present: bool,
        reasons in vec(prop_oneof![Just(0u8), Just(1), Just(2), Just(0x80)], 0..5),
    ) {
        let own = properties(&buffer, version);
        let reason = if version == Version::V5 { Reason(code) } else { Reason::SUCCESS };
        let ack = Ack { id, reason, properties: own };
        let all = [
            Packet::PubAck(ack), Packet::PubRec(ack), Packet::PubRel(ack), Packet::PubComp(ack),
            Packet::ConnAck(ConnAck { session_present: present, reason, properties: own }),
            Packet::SubAck(SubAck { id, reasons: &reasons, properties: own }),
            Packet::UnsubAck(UnsubAck {
                id, reasons: if version == Version::V5 { &reasons } else { &[] }, properties: own,
            }),
            Packet::Disconnect(Disconnect { reason, properties: own }),
            Packet::PingReq, Packet::PingResp,
        ];
        for packet in all {
            there_and_back(packet, version)?;
            cut_short(packet, version);
        }
        if version == Version::V5 {
            there_and_back(Packet::Auth(Auth { reason, properties: own }), version)?;
        }
    }

    #[test]
    fn plain_pubacks_are_those_of_the_decoder(
        kind in prop_oneof![Just(4u8), 1u8..16], body in vec(prop_oneof![Just(0), any::<u8>()], 0..5),
    ) {
        let flags = if matches!(kind, 6 | 8 | 10) { 2 } else { 0 };
        let bytes = [&[kind << 4 | flags, body.len() as u8], &*body].concat();
        let frame = Frame::split(&bytes, Frame::MAX_PACKET).unwrap().unwrap();
        // In 3.1.1, every PUBACK is only a packet identifier.
        let expected = match decode(&bytes, Version::V3) {
            Ok(Packet::PubAck(ack)) => Some(ack.id),
            _ => None,
        };
        prop_assert_eq!(frame.plain_puback(), expected);
        if let Some(id) = expected {
            prop_assert_eq!(decode(&bytes, Version::V5), Ok(Packet::PubAck(Ack::success(id))));
        }
    }

    #[test]
    fn subscriptions(
        version in version(), id in id(), user in vec((text(), text()), 0..3),
        filters in vec((name(), qos(), any::<bool>(), any::<bool>(), 0usize..3), 1..5),
    ) {
        let mut buffer = SubscriptionBuffer::new();
        let mut expected = Vec::new();
        for (filter, qos, no_local, retain_as_published, handling) in &filters {
            let handling = [RetainHandling::Send, RetainHandling::SendIfNew, RetainHandling::DoNotSend][*handling];
            let options = match version {
                Version::V3 => SubscribeOptions { qos: *qos, ..SubscribeOptions::default() },
                Version::V5 => SubscribeOptions {
                    qos: *qos, no_local: *no_local, retain_as_published: *retain_as_published, retain_handling: handling,
                },
            };
            buffer.push(filter, options).unwrap();
            expected.push((filter.as_str(), options));
        }
        let users = users(&user);
        let properties = properties(&users, version);
        let subscribe = Subscribe { id, filters: buffer.to_subscribe(), properties };
        prop_assert_eq!(subscribe.filters.iter().collect::<Vec<_>>(), expected);
        there_and_back(Packet::Subscribe(subscribe), version)?;
        cut_short(Packet::Subscribe(subscribe), version);
        let unsubscribe = Unsubscribe { id, filters: buffer.to_unsubscribe(), properties };
        there_and_back(Packet::Unsubscribe(unsubscribe), version)?;
    }
}

/// Recorded packets, byte for byte: they reveal errors that encoder and decoder have in common.
#[test]
fn known_bytes() {
    // The example of §3.1 of the standard: MQTT 5, clean start, a session expiry interval of ten seconds.
    let connect = b"\x10\x10\x00\x04MQTT\x05\x02\x00\x3c\x05\x11\x00\x00\x00\x0a\x00\x00";
    assert_eq!(connect.len(), 20);
    let mut connect = connect.to_vec();
    connect[1] = 18;
    let Packet::Connect(read) = decode(&connect, Version::V3).unwrap() else { panic!() };
    assert_eq!((read.version, read.keep_alive, read.clean_start), (Version::V5, 60, true));
    assert_eq!(read.properties.iter().collect::<Vec<_>>(), [Property::SessionExpiry(10)]);

    let publish = b"\x3d\x0a\x00\x03a/b\x01\x02\x00hi".map(|byte| byte);
    let mut publish = publish.to_vec();
    publish[1] = (publish.len() - 2) as u8;
    let Packet::Publish(read) = decode(&publish, Version::V5).unwrap() else { panic!() };
    assert_eq!((read.topic, read.payload), ("a/b", &b"hi"[..]));
    assert_eq!(read.delivery, Delivery::ExactlyOnce(PacketId::new(0x102).unwrap()));
    assert!(read.retain && read.duplicate);

    let mut out = Vec::new();
    Packet::PubAck(Ack::success(PacketId::new(5).unwrap())).encode(Version::V5, &mut out).unwrap();
    Packet::PingResp.encode(Version::V5, &mut out).unwrap();
    Packet::Disconnect(Disconnect::new(Reason::SESSION_TAKEN_OVER))
        .encode(Version::V5, &mut out)
        .unwrap();
    assert_eq!(out, b"\x40\x02\x00\x05\xd0\x00\xe0\x01\x8e");
}

/// Malformed packets and protocol errors of the standard, with the required reason code.
#[test]
fn invalid_packets_are_refused() {
    for (name, version, bytes, reason) in [
        ("QoS 3", Version::V5, &b"\x36\x05\x00\x01a\x00\x01"[..], Reason::MALFORMED_PACKET),
        ("number 0", Version::V3, b"\x32\x05\x00\x01a\x00\x00", Reason::PROTOCOL_ERROR),
        ("a wildcard", Version::V3, b"\x30\x03\x00\x01+", Reason::TOPIC_NAME_INVALID),
        ("no topic", Version::V3, b"\x30\x02\x00\x00", Reason::TOPIC_NAME_INVALID),
        ("no filter", Version::V3, b"\x82\x02\x00\x01", Reason::PROTOCOL_ERROR),
        ("empty", Version::V3, b"\x82\x05\x00\x01\x00\x00\x00", Reason::PROTOCOL_ERROR),
        (
            "empty",
            Version::V5,
            b"\x82\x0a\x00\x01\x00\x00\x01a\x00\x00\x00\x00",
            Reason::PROTOCOL_ERROR,
        ),
        ("empty", Version::V3, b"\xa2\x04\x00\x01\x00\x00", Reason::PROTOCOL_ERROR),
        ("empty", Version::V5, b"\xa2\x05\x00\x01\x00\x00\x00", Reason::PROTOCOL_ERROR),
        ("options", Version::V3, b"\x82\x06\x00\x01\x00\x01a\x04", Reason::MALFORMED_PACKET),
        ("behind", Version::V3, b"\xc0\x01\x00", Reason::MALFORMED_PACKET),
        ("AUTH in 3.1.1", Version::V3, b"\xf0\x00", Reason::MALFORMED_PACKET),
        ("not UTF-8", Version::V3, b"\x30\x03\x00\x01\xff", Reason::MALFORMED_PACKET),
        ("duplicate", Version::V3, b"\x38\x03\x00\x01a", Reason::MALFORMED_PACKET),
        (
            "MQTT 3.1",
            Version::V3,
            b"\x10\x10\x00\x06MQIsdp\x03\x02\x00\x3c\x00\x00\x00\x00",
            Reason::UNSUPPORTED_PROTOCOL_VERSION,
        ),
        ("HTTP", Version::V3, b"\x10\x06\x00\x04GET /", Reason::MALFORMED_PACKET),
    ] {
        let mut bytes = bytes.to_vec();
        bytes[1] = (bytes.len() - 2) as u8;
        assert_eq!(decode(&bytes, version).unwrap_err().reason, reason, "{name}");
    }
}

#[test]
fn mqtt_3_1_1_omits_fields() {
    let code = |reason| {
        let mut out = Vec::new();
        let ack = ConnAck { session_present: false, reason, properties: Properties::NONE };
        Packet::ConnAck(ack).encode(Version::V3, &mut out).unwrap();
        out[3]
    };
    assert_eq!(code(Reason::SERVER_BUSY), 3);
    assert_eq!(code(Reason::BAD_USER_NAME_OR_PASSWORD), 4);
    let mut out = Vec::new();
    let id = PacketId::new(1).unwrap();
    let reasons = [Reason::GRANTED_QOS_1.0, Reason::NOT_AUTHORIZED.0];
    let ack = SubAck { id, reasons: &reasons, properties: Properties::NONE };
    Packet::SubAck(ack).encode(Version::V3, &mut out).unwrap();
    assert_eq!(out[4..], [1, 0x80]);
}

/// A malformed, incomplete or unsupported CONNECT is answered in the format of its version.
#[test]
fn answers_use_the_version_of_the_request() {
    for (level, version) in [
        (0, Version::V3),
        (3, Version::V3),
        (4, Version::V3),
        (0x83, Version::V3),
        (0x84, Version::V3),
        (5, Version::V5),
        (6, Version::V5),
        (0x7f, Version::V5),
    ] {
        for name in [&b"\x00\x04MQTT"[..], b"\x00\x06MQIsdp"] {
            let connect = [b"\x11\x7f", name, &[level]].concat();
            assert_eq!(Connect::response_version(&connect), Some(version), "{level}");
            assert_eq!(Connect::response_version(&connect[..connect.len() - 1]), None);
        }
    }
    assert_eq!(Connect::response_version(b"\x30\x7f\x00\x04MQTT\x05"), None, "another packet");
    assert_eq!(Connect::response_version(b"\x10\xff\xff\xff\xff\x00\x04MQTT\x05"), None);
    assert_eq!(Connect::response_version(b"\x10\x7f\x00\x04mqtt\x05"), None);
}

/// A packet above the receiver's maximum packet size omits its reason string and nothing else.
#[test]
fn reason_strings_are_omitted_if_too_long() {
    let mut words = PropertyBuffer::new();
    words.push(Property::User("k", "a value")).unwrap();
    words.push(Property::ReasonString("why, in words")).unwrap();
    let properties = words.get();
    let (id, reason) = (PacketId::new(7).unwrap(), Reason::QUOTA_EXCEEDED);
    let (ack, session_present) = (Ack { id, reason, properties }, false);
    let reasons = &[0, 1, 0x8f];
    for packet in [
        Packet::ConnAck(ConnAck { session_present, reason, properties }),
        Packet::PubAck(ack),
        Packet::PubRec(ack),
        Packet::PubRel(ack),
        Packet::PubComp(ack),
        Packet::SubAck(SubAck { id, reasons, properties }),
        Packet::UnsubAck(UnsubAck { id, reasons, properties }),
        Packet::Disconnect(Disconnect { reason, properties }),
        Packet::Auth(Auth { reason: Reason::CONTINUE_AUTHENTICATION, properties }),
    ] {
        let [mut whole, mut short, mut none] = [(); 3].map(|()| b"before".to_vec());
        packet.encode(Version::V5, &mut whole).unwrap();
        let length = whole.len() - 6;
        packet.encode_within(Version::V5, length, &mut short).unwrap();
        assert_eq!(short, whole);
        short.truncate(6);
        packet.encode_within(Version::V5, length - 1, &mut short).unwrap();
        let least = short.len() - 6;
        // The property length, which some packets omit.
        let words = words.get().bytes();
        assert!(least == length - words || least == length - words - 1, "{packet:?}");
        assert!(decode(&short[6..], Version::V5).is_ok());
        let error = packet.encode_within(Version::V5, least - 1, &mut none).unwrap_err();
        assert_eq!((error.reason, &none[..]), (Reason::PACKET_TOO_LARGE, &b"before"[..]));
    }
    let mut others = PropertyBuffer::new();
    others.push(Property::AssignedClientIdentifier("somebody")).unwrap();
    let kept = others.clone();
    others.push(Property::User("k", "v")).unwrap();
    let of = |properties| Packet::ConnAck(ConnAck { session_present, reason, properties });
    let [mut out, mut expected] = [(); 2].map(|()| Vec::new());
    of(others.get()).encode_within(Version::V5, 20, &mut out).unwrap();
    of(kept.get()).encode(Version::V5, &mut expected).unwrap();
    assert_eq!(out, expected);
}

#[test]
fn too_long_packets_are_not_written() {
    let long = "x".repeat(65_536);
    let publish = Publish {
        topic: &long,
        payload: b"",
        delivery: Delivery::AtMostOnce,
        retain: false,
        duplicate: false,
        properties: Properties::NONE,
    };
    let mut out = b"before".to_vec();
    assert!(Packet::Publish(publish).encode(Version::V5, &mut out).is_err());
    let connect = Connect {
        version: Version::V5,
        client_id: &long,
        clean_start: true,
        keep_alive: 0,
        username: None,
        password: None,
        will: None,
        properties: Properties::NONE,
    };
    assert!(Packet::Connect(connect).encode(Version::V5, &mut out).is_err());
    assert_eq!(out, b"before");
}
