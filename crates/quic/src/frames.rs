//! Counts of received frames, for limits on frames that cost their receiver more than their sender.

use quinn_proto::ConnectionStats;

/// Frames of QUIC that a client has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedFrames {
    /// Datagrams with any frames.
    pub datagrams: u64,
    /// Streams that the client has reset or stopped reading. A client that cancels a request does both.
    pub resets: u64,
    /// Frames that carry no content and acknowledge nothing, such as pings and window updates, and all but the first
    /// frame with content in each datagram.
    pub idle: u64,
}

impl ReceivedFrames {
    /// The frames received since `before`, which is replaced by the current counts.
    pub(crate) fn since(before: &mut ConnectionStats, now: ConnectionStats) -> Self {
        let before = std::mem::replace(before, now);
        let (old, new) = (&before.frame_rx, &now.frame_rx);
        let datagrams = now.udp_rx.datagrams - before.udp_rx.datagrams;
        let resets = (new.reset_stream - old.reset_stream).max(new.stop_sending - old.stop_sending);
        let pieces = (new.stream - old.stream).saturating_sub(datagrams);
        Self { datagrams, resets, idle: pieces + without_content(&now) - without_content(&before) }
    }
}

/// Frames without content, except acknowledgements and those counted as resets.
fn without_content(stats: &ConnectionStats) -> u64 {
    let frames = &stats.frame_rx;
    [
        frames.ping,
        frames.crypto,
        frames.max_data,
        frames.max_stream_data,
        frames.max_streams_bidi,
        frames.max_streams_uni,
        frames.data_blocked,
        frames.stream_data_blocked,
        frames.streams_blocked_bidi,
        frames.streams_blocked_uni,
        frames.new_connection_id,
        frames.retire_connection_id,
        frames.path_challenge,
        frames.path_response,
        frames.ack_frequency,
        frames.immediate_ack,
    ]
    .iter()
    .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_counted_since_the_last_time() {
        let mut before = ConnectionStats::default();
        let mut now = before;
        (now.udp_rx.datagrams, now.frame_rx.stream, now.frame_rx.acks) = (3, 2, 3);
        let expected = ReceivedFrames { datagrams: 3, ..ReceivedFrames::default() };
        assert_eq!(
            ReceivedFrames::since(&mut before, now),
            expected,
            "content and its acknowledgement"
        );
        (now.udp_rx.datagrams, now.frame_rx.stream) = (4, 12);
        (now.frame_rx.ping, now.frame_rx.max_stream_data) = (2, 3);
        (now.frame_rx.reset_stream, now.frame_rx.stop_sending) = (4, 5);
        let expected = ReceivedFrames { datagrams: 1, resets: 5, idle: 9 + 2 + 3 };
        assert_eq!(ReceivedFrames::since(&mut before, now), expected);
        assert_eq!(ReceivedFrames::since(&mut before, now), ReceivedFrames::default());
    }
}
