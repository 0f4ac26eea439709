//! The limits of mosquitto on the size of messages.

use phalanx_broker::{Config, Limits};

use super::notes::Notes;

/// Maximum values of `max-packet-size`: the longest packet of MQTT, and with persistence an entry of the journal.
const MAX_PACKET: usize = (256 << 20) - 1;
const MAX_DURABLE_PACKET: usize = 128 << 20;

/// Room for the topic, which has up to 64 KiB, and the properties of a message. mosquitto does not count them in
/// `message_size_limit`.
const HEADER: usize = 128 << 10;

/// Both limits in bytes; `None` for no limit, as by default.
#[derive(Debug, Default)]
pub(super) struct PacketSize {
    /// `max_packet_size`.
    pub(super) packet: Option<usize>,
    /// `message_size_limit`, of the payload.
    pub(super) payload: Option<usize>,
}

impl PacketSize {
    /// Sets the limit of the configuration, whose persistence is known.
    pub(super) fn finish(self, config: &mut Config, notes: &mut Notes) {
        let max = if config.persistence_dir.is_some() { MAX_DURABLE_PACKET } else { MAX_PACKET };
        let payload = self.payload.map(|bytes| bytes.saturating_add(HEADER));
        let configured = self.packet.into_iter().chain(payload).min();
        config.limits.packet_size = configured.unwrap_or(max).clamp(128, max);
        match configured {
            None => notes.add_general(
                "max-packet-size: mosquitto accepts packets of any size, so this is the highest value; lower it to what \
                 your clients send",
            ),
            Some(bytes) if bytes > max => notes.add_general(&format!(
                "max-packet-size: the highest value is {max} bytes, and mosquitto accepts {bytes}"
            )),
            Some(_) => (),
        }
        let Limits { packet_size, queued_bytes, .. } = &mut config.limits;
        if *queued_bytes >= *packet_size {
            return;
        }
        if *queued_bytes == Limits::default().queued_bytes {
            *queued_bytes = *packet_size;
            notes.add_general(
                "max-queued-bytes: as high as max-packet-size, so that a client's queue can hold a message of that size; \
                 lower it together with max-packet-size",
            );
        } else {
            notes.add_general(
                "max-queued-bytes: lower than max-packet-size, so the longest messages are dropped for a client for \
                 which others wait",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_not_lower_than_that_of_mosquitto() {
        for (packet, payload, persists, expected, notes) in [
            (None, None, false, MAX_PACKET, 2),
            (None, None, true, MAX_DURABLE_PACKET, 2),
            (Some(2000), None, true, 2000, 0),
            (Some(20), None, false, 128, 0),
            (None, Some(1 << 20), false, (1 << 20) + HEADER, 0),
            (Some(2000), Some(1 << 20), false, 2000, 0),
            (Some(200 << 20), None, true, MAX_DURABLE_PACKET, 2),
        ] {
            let (mut config, mut found) = (Config::default(), Notes::default());
            config.persistence_dir = persists.then(|| "/data".into());
            PacketSize { packet, payload }.finish(&mut config, &mut found);
            assert_eq!((config.limits.packet_size, found.lines().count()), (expected, notes));
            assert_eq!(config.check(), []);
            assert!(config.limits.queued_bytes >= config.limits.packet_size);
        }
    }

    #[test]
    fn a_limit_of_queued_bytes_is_not_changed() {
        let (mut config, mut found) = (Config::default(), Notes::default());
        config.limits.queued_bytes = 1000;
        PacketSize { packet: Some(2000), payload: None }.finish(&mut config, &mut found);
        assert_eq!((config.limits.queued_bytes, found.lines().count()), (1000, 1));
    }
}
