//! Counters.

use phalanx::metrics::Counter;

/// Declares the counters, each once.
macro_rules! counters {
    ($($name:ident = $counter:expr;)*) => {
        /// Counters of all processors. Clones share them.
        #[derive(Clone)]
        pub(crate) struct QuicMetrics {
            $(pub(crate) $name: Counter,)*
        }

        impl QuicMetrics {
            pub(crate) fn new() -> Self {
                Self { $($name: $counter,)* }
            }

            pub(crate) fn all(&self) -> impl Iterator<Item = &Counter> {
                [$(&self.$name),*].into_iter()
            }
        }
    };
}

counters! {
    received = Counter::new("quic_datagrams_received", "Received datagrams.");
    sent = sends("ok");
    failed_sends = sends("error");
    handshakes = Counter::new("quic_handshakes", "Completed QUIC handshakes.");
    handshakes_failed = Counter::new("quic_handshakes_failed", "Failed QUIC handshakes.");
    retries = Counter::new("quic_retries", "Clients that were asked to prove their address.");
    refused = Counter::new("quic_connections_refused", "Refused QUIC connections.");
    dropped_handshakes = drops("max-handshakes");
    dropped_responses = drops("max-sends");
    too_large = drops("too-large");
    ignored = drops("ignored");
}

fn sends(result: &str) -> Counter {
    let help = "Sent datagrams, by result.";
    Counter::with_label("quic_datagrams_sent", help, ("result", result))
}

fn drops(reason: &str) -> Counter {
    Counter::with_label("quic_dropped", "Dropped datagrams, by reason.", ("reason", reason))
}
