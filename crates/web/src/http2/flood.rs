//! Limits for frames that cost their receiver more than their sender.
//!
//! An honest client sends a few. A client that sends many keeps the server busy (CVE-2019-9511 to
//! CVE-2019-9518; CVE-2023-44487, "rapid reset"; CVE-2025-8671). Its connection ends with ENHANCE_YOUR_CALM.
//!
//! - Resets, pings, settings, priorities and GOAWAY: a number within a time is allowed. The same number of
//!   streams may be reset by the server, for errors of the client's.
//! - Window updates, continuations, frames of unknown kinds and small pieces of content come with useful
//!   work. Each takes a credit, and the frames that the server sends earn credits.

use std::time::Duration;

use crate::http2::frames::{Frame, kind};

/// Costly frames allowed within [`WINDOW`], and resets by the server. Also the credits of a new connection,
/// and the least credits when a [`WINDOW`] begins.
pub(super) const MAX_PER_WINDOW: u32 = 1000;
/// The counts start again after this long.
const WINDOW: Duration = Duration::from_secs(10);
/// Largest number of credits. A client that updates two windows for each 16 KiB needs that many for 80 MB.
const MAX_CREDITS: u32 = 10_000;
/// Credits earned by a response of any size.
const PER_ANSWER: u32 = 4;
/// Bytes of content that earn a credit. A frame with fewer takes one.
const PER_CREDIT: usize = 256;

/// The counts of one connection.
pub(super) struct Flood {
    since: Duration,
    costly: u32,
    /// Streams that the server has reset.
    reset: u32,
    credits: u32,
    /// Bytes of content that have not earned a credit yet.
    content: usize,
    exhausted: bool,
}

impl Flood {
    pub(super) fn new() -> Self {
        let since = Duration::ZERO;
        Self { since, costly: 0, reset: 0, credits: MAX_PER_WINDOW, content: 0, exhausted: false }
    }

    /// Whether the client is within its limits.
    pub(super) fn is_calm(&self) -> bool {
        self.costly <= MAX_PER_WINDOW && self.reset <= MAX_PER_WINDOW && !self.exhausted
    }

    /// Starts a new window if the previous one is over at `now`.
    pub(super) fn at(&mut self, now: Duration) {
        if now.saturating_sub(self.since) >= WINDOW {
            (self.since, self.costly, self.reset) = (now, 0, 0);
            self.credits = self.credits.max(MAX_PER_WINDOW);
        }
    }

    /// Counts a frame received from the client.
    pub(super) fn received(&mut self, frame: &Frame) {
        match frame.kind {
            kind::PRIORITY | kind::RST_STREAM | kind::SETTINGS | kind::PING | kind::GOAWAY => {
                self.costly = self.costly.saturating_add(1);
            }
            // MAX_CONCURRENT_STREAMS and the admission bound requests.
            kind::HEADERS => (),
            kind::DATA if frame.length >= PER_CREDIT => (),
            _ => match self.credits.checked_sub(1) {
                Some(left) => self.credits = left,
                None => self.exhausted = true,
            },
        }
    }

    /// Counts a frame that the server sends.
    pub(super) fn sent(&mut self, frame: &Frame) {
        let earned = match frame.kind {
            kind::HEADERS => PER_ANSWER,
            kind::DATA => {
                let content = self.content + frame.length;
                self.content = content % PER_CREDIT;
                (content / PER_CREDIT) as u32
            }
            kind::RST_STREAM => {
                self.reset = self.reset.saturating_add(1);
                0
            }
            _ => 0,
        };
        self.credits = (self.credits + earned).min(MAX_CREDITS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_UPDATE: u8 = 8;

    fn frame(kind: u8, length: usize) -> Frame {
        Frame { length, kind, flags: 0, stream: 1 }
    }

    #[test]
    fn a_thousand_costly_frames_are_allowed() {
        let costly = [kind::PRIORITY, kind::RST_STREAM, kind::SETTINGS, kind::PING, kind::GOAWAY];
        let mut flood = Flood::new();
        for n in 0..MAX_PER_WINDOW as usize {
            assert!(flood.is_calm());
            flood.received(&frame(costly[n % costly.len()], 8));
            // No response earns credits for these.
            flood.sent(&frame(kind::HEADERS, 30));
        }
        assert!(flood.is_calm());
        flood.received(&frame(kind::PING, 8));
        assert!(!flood.is_calm());
        let mut flood = Flood::new();
        (0..MAX_PER_WINDOW).for_each(|_| flood.sent(&frame(kind::RST_STREAM, 4)));
        assert!(flood.is_calm());
        flood.sent(&frame(kind::RST_STREAM, 4));
        assert!(!flood.is_calm(), "the client has made the server reset them");
    }

    #[test]
    fn idle_frames_take_credits() {
        // (kind, length)
        let idle = [
            (WINDOW_UPDATE, 4),
            (kind::CONTINUATION, 0),
            (kind::DATA, 0),
            (kind::DATA, 255),
            (10, 0),
            (255, 16_384),
        ];
        for (kind, length) in idle {
            let mut flood = Flood::new();
            (0..MAX_PER_WINDOW).for_each(|_| flood.received(&frame(kind, length)));
            assert!(flood.is_calm(), "{kind}");
            flood.received(&frame(kind, length));
            assert!(!flood.is_calm(), "{kind}");
        }
        let mut flood = Flood::new();
        (0..10 * MAX_PER_WINDOW).for_each(|_| flood.received(&frame(kind::HEADERS, 20)));
        (0..10 * MAX_PER_WINDOW).for_each(|_| flood.received(&frame(kind::DATA, 256)));
        assert!(flood.is_calm(), "requests and content");
    }

    #[test]
    fn sent_frames_earn_credits() {
        let mut flood = Flood::new();
        for _ in 0..10 * MAX_PER_WINDOW {
            // Two windows are updated for each KiB, and four frames come with a small response.
            flood.sent(&frame(kind::DATA, 1024));
            (0..2).for_each(|_| flood.received(&frame(WINDOW_UPDATE, 4)));
            flood.sent(&frame(kind::HEADERS, 10));
            (0..4).for_each(|_| flood.received(&frame(WINDOW_UPDATE, 4)));
        }
        assert!(flood.is_calm());
        // Credits are bounded.
        (0..MAX_CREDITS).for_each(|_| flood.sent(&frame(kind::DATA, 16_384)));
        (0..MAX_CREDITS).for_each(|_| flood.received(&frame(WINDOW_UPDATE, 4)));
        assert!(flood.is_calm());
        flood.received(&frame(WINDOW_UPDATE, 4));
        assert!(!flood.is_calm());
        // Updates of one byte earn too few credits to continue.
        let mut flood = Flood::new();
        for _ in 0..2 * MAX_PER_WINDOW {
            flood.received(&frame(WINDOW_UPDATE, 4));
            flood.sent(&frame(kind::DATA, 1));
        }
        assert!(!flood.is_calm());
    }

    #[test]
    fn a_new_window_resets_the_counts() {
        let mut flood = Flood::new();
        for second in 0..100 {
            flood.at(Duration::from_secs(second));
            for _ in 0..MAX_PER_WINDOW / 10 {
                flood.received(&frame(kind::PING, 8));
                flood.received(&frame(WINDOW_UPDATE, 4));
                flood.sent(&frame(kind::RST_STREAM, 4));
            }
            assert!(flood.is_calm(), "second {second}");
        }
    }
}
