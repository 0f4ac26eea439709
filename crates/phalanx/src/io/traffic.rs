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
    opens: AtomicU64,
}

/// The totals of one processor, or their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) receives: u64,
    pub(crate) opens: u64,
    /// The number of sockets that are currently open.
    pub(crate) sockets: u64,
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

impl TrafficCounters {
    /// Counts the bytes of a request that sends a payload, and datagrams.
    #[inline]
    pub(super) fn starts(&self, request: &Request) {
        let bytes = match request {
            Request::Send { payload, .. } => payload.len(),
            Request::SendVectored { parts, .. } => parts.iter().map(bytes::Bytes::len).sum(),
            Request::SendFile { head, .. } => head.len(),
            Request::SendTo { datagram, .. } => datagram.len(),
            _ => return,
        };
        self.sent(bytes);
    }

    /// Counts bytes that were sent without a request.
    #[inline]
    pub(super) fn sent(&self, bytes: usize) {
        add(&self.bytes_out, bytes as u64);
    }

    /// Counts the bytes of a receive, and those of a file that was sent.
    #[inline]
    pub(super) fn completes(&self, result: &io::Result<Done>) {
        let received = match result {
            // The end of a stream.
            Ok(Done::Received(chunk)) if chunk.is_empty() => return,
            Ok(Done::Received(chunk)) => chunk.len() as u64,
            Ok(Done::Skipped(bytes)) => *bytes,
            Ok(Done::Datagram(datagram)) => datagram.bytes.len() as u64,
            Ok(Done::SentFile { bytes, .. }) => return add(&self.bytes_out, *bytes),
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
        self.opens += other.opens;
        self.sockets += other.sockets;
    }
}
