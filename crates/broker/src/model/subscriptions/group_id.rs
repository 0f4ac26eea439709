//! The numbers of shared subscriptions in messages between the nodes of a cluster. They are sent as subscription
//! identifiers.

use phalanx_mqtt::QoS;

/// The largest subscription identifier.
const MAX_ID: u32 = 268_435_455;

/// The subscription identifier of a retained message that is sent to a joining node. It encodes the message's QoS,
/// because the message itself is sent with QoS 0.
pub(crate) fn sync_id(qos: QoS) -> u32 {
    MAX_ID - qos as u32
}

/// The QoS of a retained message that is sent to a joining node; `None` for other identifiers.
pub(crate) fn qos_of_sync(id: u32) -> Option<QoS> {
    [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce]
        .into_iter()
        .find(|qos| id == sync_id(*qos))
}

/// The number of a shared subscription in messages between nodes: a hash of its key, so it survives restarts.
pub(crate) fn group_id(key: &str) -> u32 {
    // FNV-1a, whose result is the same in all versions and on all machines.
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    1 + (hash % u64::from(MAX_ID - 3)) as u32
}
