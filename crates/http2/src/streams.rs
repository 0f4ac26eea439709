//! The table of streams and their states (RFC 9113 §5.1).
//!
//! The table contains the streams that are open or half-closed. Identifiers increase, so it is ordered, and a
//! stream that is not in it is idle or closed.

use std::task::Waker;

use crate::window::{ReceiveWindow, SendWindow};

/// An open or half-closed stream.
pub(crate) struct Stream {
    pub(crate) id: u32,
    pub(crate) send_window: SendWindow,
    pub(crate) receive_window: ReceiveWindow,
    /// Whether the client may send more content: it has not sent END_STREAM.
    pub(crate) is_receiving: bool,
    /// Whether the response head was sent.
    pub(crate) is_answered: bool,
    /// Whether the stream waits in the queue for the connection's window or output buffer.
    pub(crate) is_queued: bool,
    /// Content received so far, in bytes.
    pub(crate) received: u64,
    /// The request's `Content-Length`.
    pub(crate) expected: Option<u64>,
    /// Received content that the request's operation has not taken.
    pub(crate) content: Vec<u8>,
    /// Whether content is discarded when it arrives.
    pub(crate) discards: bool,
    /// The operation that waits for the stream.
    pub(crate) waker: Option<Waker>,
}

/// Wakes an operation, if one waits.
pub(crate) fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// State of a stream that is not in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// No frame was received for it.
    Idle,
    /// A later stream was opened before it, so it can no longer be opened (RFC 9113 §5.1.1).
    Skipped,
    /// The server has reset it; the reset may not have reached the client yet.
    Reset,
    /// It has ended, or the client has reset it.
    Closed,
    /// It was closed so long ago that its state is no longer known.
    Forgotten,
}

/// The streams of a connection.
pub(crate) struct Streams {
    /// In the order of their identifiers.
    open: Vec<Stream>,
    /// The highest identifier that the client has used.
    last: u32,
    /// Whether the stream `last - 2 * n` was opened, in bit `n`.
    opened: u128,
    /// Whether the server has reset the stream `last - 2 * n`, in bit `n`.
    reset: u128,
}

impl Streams {
    pub(crate) fn new() -> Self {
        Self { open: Vec::new(), last: 0, opened: 0, reset: 0 }
    }

    /// The highest identifier that the client has used; zero for none.
    pub(crate) fn last(&self) -> u32 {
        self.last
    }

    /// Number of open or half-closed streams.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Returns an open or half-closed stream.
    #[inline]
    pub(crate) fn get(&mut self, id: u32) -> Option<&mut Stream> {
        let at = self.index(id)?;
        Some(&mut self.open[at])
    }

    /// All open or half-closed streams.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.open.iter_mut()
    }

    /// State of a stream that is not open.
    pub(crate) fn absent(&self, id: u32) -> Absent {
        if id.is_multiple_of(2) || id > self.last {
            return Absent::Idle;
        }
        match (self.last - id) / 2 {
            age @ ..128 if self.reset >> age & 1 == 1 => Absent::Reset,
            age @ ..128 if self.opened >> age & 1 == 1 => Absent::Closed,
            ..128 => Absent::Skipped,
            _ => Absent::Forgotten,
        }
    }

    /// Records a new identifier, higher than [`last`](Self::last).
    pub(crate) fn used(&mut self, id: u32) {
        // The first identifier is 1.
        let by = (id + 1 - self.last) / 2;
        self.opened = self.opened.checked_shl(by).unwrap_or(0) | 1;
        self.reset = self.reset.checked_shl(by).unwrap_or(0);
        self.last = id;
    }

    /// Adds the stream [`last`](Self::last).
    pub(crate) fn open(&mut self, stream: Stream) {
        debug_assert_eq!(stream.id, self.last);
        self.open.push(stream);
    }

    /// Removes a stream that has ended.
    pub(crate) fn remove(&mut self, id: u32) -> Option<Stream> {
        let at = self.index(id)?;
        Some(self.open.remove(at))
    }

    /// Records that the server has reset a stream.
    pub(crate) fn mark_reset(&mut self, id: u32) {
        if let age @ ..128 = self.last.saturating_sub(id) / 2 {
            self.reset |= 1 << age;
        }
    }

    /// Removes all streams, and wakes their operations.
    pub(crate) fn clear(&mut self) {
        for stream in std::mem::take(&mut self.open) {
            wake(stream.waker);
        }
    }

    fn index(&self, id: u32) -> Option<usize> {
        // Most frames concern one of a few streams.
        if self.open.len() <= 8 {
            return self.open.iter().position(|stream| stream.id == id);
        }
        self.open.binary_search_by_key(&id, |stream| stream.id).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(id: u32) -> Stream {
        Stream {
            id,
            send_window: SendWindow(0),
            receive_window: ReceiveWindow::new(),
            is_receiving: false,
            is_answered: false,
            is_queued: false,
            received: 0,
            expected: None,
            content: Vec::new(),
            discards: false,
            waker: None,
        }
    }

    /// RFC 9113 §5.1 and §5.1.1.
    #[test]
    fn states_of_absent_streams() {
        let mut streams = Streams::new();
        assert_eq!(streams.absent(1), Absent::Idle);
        for id in [1, 7, 9] {
            streams.used(id);
            streams.open(stream(id));
        }
        assert!([1, 7, 9].iter().all(|id| streams.get(*id).is_some_and(|it| it.id == *id)));
        streams.remove(1);
        streams.remove(7);
        streams.mark_reset(7);
        assert!(streams.get(1).is_none() && streams.len() == 1);
        let states = [1, 3, 5, 7, 11, 2].map(|id| streams.absent(id));
        use Absent::{Closed, Forgotten, Idle, Reset, Skipped};
        assert_eq!(states, [Closed, Skipped, Skipped, Reset, Idle, Idle]);
        streams.used(9 + 2 * 100);
        assert_eq!([1, 3, 7].map(|id| streams.absent(id)), [Closed, Skipped, Reset]);
        streams.used(9 + 2 * 128);
        assert_eq!([7, 9, 11].map(|id| streams.absent(id)), [Forgotten, Forgotten, Skipped]);
    }

    #[test]
    fn many_streams_are_found() {
        let mut streams = Streams::new();
        for n in 0..100 {
            streams.used(4 * n + 1);
            streams.open(stream(4 * n + 1));
        }
        for n in (0..100).step_by(3) {
            streams.remove(4 * n + 1);
        }
        for n in 0..100 {
            assert_eq!(streams.get(4 * n + 1).is_some(), n % 3 != 0);
        }
    }
}
