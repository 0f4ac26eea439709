//! Traffic counters of a processor, for the indicators of automatic placement.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use phalanx_driver::{Done, Request};

/// Totals since the start. Only the processor's thread writes them, for each request, so they have their own cache
/// line.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct TrafficCounters {
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    receives: AtomicU64,
    sends: AtomicU64,
    send_logs: AtomicU64,
    opens: AtomicU64,
}

/// The totals of one processor, or their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) receives: u64,
    /// The number of sends, and the sum of the [`size_log`]s of their bytes. A file is one send for each request.
    pub(crate) sends: u64,
    pub(crate) send_logs: u64,
    pub(crate) opens: u64,
    /// The number of sockets that are currently open.
    pub(crate) sockets: u64,
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

/// The binary logarithm of a number of bytes in units of 1/256, linear between two powers of two. The logarithm of zero
/// is that of one.
#[inline]
fn size_log(bytes: u64) -> u64 {
    let bytes = bytes | 1;
    let exponent = bytes.ilog2();
    (u64::from(exponent) << 8) + (((bytes << 8) >> exponent) & 0xff)
}

/// The number of bytes with this [`size_log`].
pub(crate) fn size_of_log(log: f64) -> f64 {
    let exponent = (log / 256.0).floor();
    (1.0 + log / 256.0 - exponent) * exponent.exp2()
}

impl TrafficCounters {
    /// Counts the bytes of a request that sends a payload, and datagrams.
    #[inline]
    pub(super) fn starts(&self, request: &Request) {
        let bytes = match request {
            Request::Send { payload, .. } => payload.len(),
            Request::SendVectored { parts, .. } => parts.iter().map(bytes::Bytes::len).sum(),
            // The file is the send.
            Request::SendFile { head, .. } => return add(&self.bytes_out, head.len() as u64),
            Request::SendTo { datagram, .. } => datagram.len(),
            _ => return,
        };
        self.sent(bytes);
    }

    /// Counts bytes that were sent without a request.
    #[inline]
    pub(super) fn sent(&self, bytes: usize) {
        add(&self.bytes_out, bytes as u64);
        add(&self.sends, 1);
        add(&self.send_logs, size_log(bytes as u64));
    }

    /// Counts the bytes of a receive, and those of a file that was sent.
    #[inline]
    pub(super) fn record_completion(&self, result: &io::Result<Done>) {
        let received = match result {
            // The end of a stream.
            Ok(Done::Received(chunk)) if chunk.is_empty() => return,
            Ok(Done::Received(chunk)) => chunk.len() as u64,
            Ok(Done::Skipped(bytes)) => *bytes,
            Ok(Done::Datagram(datagram)) => datagram.bytes.len() as u64,
            Ok(Done::SentFile { bytes, .. }) => return self.sent(*bytes as usize),
            _ => return,
        };
        add(&self.bytes_in, received);
        add(&self.receives, 1);
    }

    pub(super) fn opened(&self) {
        add(&self.opens, 1);
    }

    pub(super) fn read(&self, sockets: usize) -> Traffic {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Traffic {
            bytes_in: read(&self.bytes_in),
            bytes_out: read(&self.bytes_out),
            receives: read(&self.receives),
            sends: read(&self.sends),
            send_logs: read(&self.send_logs),
            opens: read(&self.opens),
            sockets: sockets as u64,
        }
    }
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.receives += other.receives;
        self.sends += other.sends;
        self.send_logs += other.send_logs;
        self.opens += other.opens;
        self.sockets += other.sockets;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_small_sends_and_a_large_one_are_typically_small() {
        for bytes in [1, 119, 4_096, 100_000, 10_000_000] {
            let typical = size_of_log(size_log(bytes) as f64);
            assert!((typical / bytes as f64 - 1.0).abs() < 0.01, "{bytes}: {typical}");
        }
        let sizes = [120, 120, 120, 120, 120, 120, 120, 120, 120, 1_000_000];
        let counters = TrafficCounters::default();
        sizes.iter().for_each(|bytes| counters.sent(*bytes));
        let Traffic { bytes_out, sends, send_logs, .. } = counters.read(0);
        assert_eq!((bytes_out, sends), (1_001_080, 10));
        let typical = size_of_log(send_logs as f64 / sends as f64);
        assert!((280.0..310.0).contains(&typical), "{typical}");
    }
}
