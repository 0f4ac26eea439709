//! Counters.

use phalanx::metrics::Counter;

/// Counters of all processors. Clones share them.
#[derive(Clone)]
pub(crate) struct QuicMetrics {
    pub(crate) received: Counter,
    pub(crate) sent: Counter,
    pub(crate) failed_sends: Counter,
    pub(crate) handshakes: Counter,
    pub(crate) handshakes_failed: Counter,
    pub(crate) retries: Counter,
    pub(crate) refused: Counter,
    pub(crate) dropped_handshakes: Counter,
    pub(crate) dropped_responses: Counter,
    pub(crate) too_large: Counter,
    pub(crate) ignored: Counter,
}

impl QuicMetrics {
    pub(crate) fn new() -> Self {
        let dropped = |reason| {
            Counter::with_label("quic_dropped", "Dropped datagrams, by reason.", ("reason", reason))
        };
        let sent = |result| {
            Counter::with_label(
                "quic_datagrams_sent",
                "Sent datagrams, by result.",
                ("result", result),
            )
        };
        Self {
            received: Counter::new("quic_datagrams_received", "Received datagrams."),
            sent: sent("ok"),
            failed_sends: sent("error"),
            handshakes: Counter::new("quic_handshakes", "Completed QUIC handshakes."),
            handshakes_failed: Counter::new("quic_handshakes_failed", "Failed QUIC handshakes."),
            retries: Counter::new(
                "quic_retries",
                "Clients that were asked to prove their address.",
            ),
            refused: Counter::new("quic_connections_refused", "Refused QUIC connections."),
            dropped_handshakes: dropped("max-handshakes"),
            dropped_responses: dropped("max-sends"),
            too_large: dropped("too-large"),
            ignored: dropped("ignored"),
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Counter> {
        let Self {
            received,
            sent,
            failed_sends,
            handshakes,
            handshakes_failed,
            retries,
            refused,
            dropped_handshakes,
            dropped_responses,
            too_large,
            ignored,
        } = self;
        [received, sent, failed_sends, handshakes, handshakes_failed, retries, refused]
            .into_iter()
            .chain([dropped_handshakes, dropped_responses, too_large, ignored])
    }
}
