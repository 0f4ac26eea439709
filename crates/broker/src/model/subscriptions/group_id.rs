//! The numbers of shared subscriptions in messages between the nodes of a cluster: subscription identifiers.

use phalanx_mqtt::QoS;

/// The largest subscription identifier.
const MAX_ID: u32 = 268_435_455;

/// The subscription identifier of a retained message that a node gets when it joins. It carries the QoS, because the
/// message itself is sent at most once.
pub(crate) fn sync_id(qos: QoS) -> u32 {
    MAX_ID - qos as u32
}

/// The QoS of a retained message that a node gets when it joins; `None` for other identifiers.
pub(crate) fn qos_of_sync(id: u32) -> Option<QoS> {
    [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce]
        .into_iter()
        .find(|qos| id == sync_id(*qos))
}

/// The number of a shared subscription in messages between nodes: a hash of its key, so that it survives a restart.
pub(crate) fn group_id(key: &str) -> u32 {
    // FNV-1a, whose result is the same in all versions and on all machines.
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    1 + (hash % u64::from(MAX_ID - 3)) as u32
}
