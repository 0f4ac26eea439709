//! Limits for frames that cost their receiver more than their sender, for HTTP/2 and HTTP/3.
//!
//! An honest client sends a few. A client that sends many keeps the server busy (CVE-2019-9511 to
//! CVE-2019-9518; CVE-2023-44487, "rapid reset"; CVE-2025-8671). Its connection ends with ENHANCE_YOUR_CALM, over HTTP/3
//! with H3_EXCESSIVE_LOAD.
//!
//! - Resets, pings, settings, priorities and GOAWAY: [`MAX_PER_WINDOW`] are allowed within ten seconds. The server may
//!   reset the same number of streams because of client errors.
//! - Window updates, continuations, frames of unknown kinds and small pieces of content come with useful
//!   work. Each takes a credit. Frames that the server sends, and content that an operation takes, earn credits.

use std::time::Duration;

use crate::frame::{Frame, kind};

/// Costly frames allowed within 10 seconds, and resets by the server. Also the credits of a new connection, and the
/// minimum to which credits are refilled every 10 seconds.
pub const MAX_PER_WINDOW: u32 = 1000;
/// Time after which the counts start at zero again.
const WINDOW: Duration = Duration::from_secs(10);
/// Largest number of credits. A client that updates two windows for each 16 KiB needs that many for 80 MB.
const MAX_CREDITS: u32 = 10_000;
/// Credits earned by a response of any size.
const PER_ANSWER: u32 = 4;
/// Bytes of content that earn a credit. A frame with fewer bytes takes one.
const PER_CREDIT: usize = 256;
/// Bytes of a request's content that earn a credit when an operation takes them. Any piece earns another one.
const PER_CREDIT_TAKEN: usize = 16;

/// The limit that a client has exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// The client reset too many streams ("rapid reset").
    Resets,
    /// The client made the server reset too many streams ("made you reset").
    ServerResets,
    /// Too many PING, SETTINGS, PRIORITY or GOAWAY frames; over HTTP/3, too many frames of the control stream, or streams
    /// of unknown types.
    ControlFrames,
    /// Too many window updates, continuations, unknown frames or small pieces of content; over HTTP/3, also pings.
    IdleFrames,
    /// A field block, or the field list that it is decoded to, is too large. HTTP/3 frames state the length of a field
    /// block, so there the request gets an error response.
    FieldBlock,
}

impl Excess {
    /// All reasons.
    pub const ALL: [Self; 5] =
        [Self::Resets, Self::ServerResets, Self::ControlFrames, Self::IdleFrames, Self::FieldBlock];

    /// Name of the reason, for metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Resets => "resets",
            Self::ServerResets => "server-resets",
            Self::ControlFrames => "control-frames",
            Self::IdleFrames => "idle-frames",
            Self::FieldBlock => "field-block",
        }
    }
}

/// The counts of one connection.
#[derive(Debug)]
pub struct Flood {
    window_start: Duration,
    costly: u32,
    /// Streams that the server has reset.
    reset: u32,
    credits: u32,
    /// Bytes of sent content that have not earned a credit yet.
    uncredited: usize,
    excess: Option<Excess>,
}

impl Default for Flood {
    fn default() -> Self {
        let window_start = Duration::ZERO;
        Self {
            window_start,
            costly: 0,
            reset: 0,
            credits: MAX_PER_WINDOW,
            uncredited: 0,
            excess: None,
        }
    }
}

impl Flood {
    /// The limit that the client has exceeded, if any.
    pub fn excess(&self) -> Option<Excess> {
        self.excess
    }

    /// Starts a new window if the previous one is over at `now`.
    pub fn at(&mut self, now: Duration) {
        if now.saturating_sub(self.window_start) >= WINDOW {
            (self.window_start, self.costly, self.reset) = (now, 0, 0);
            self.credits = self.credits.max(MAX_PER_WINDOW);
        }
    }

    /// Counts an HTTP/2 frame received from the client.
    pub(crate) fn received(&mut self, frame: &Frame) {
        match frame.kind {
            kind::RST_STREAM => self.costly(1, Excess::Resets),
            kind::PRIORITY | kind::SETTINGS | kind::PING | kind::GOAWAY => {
                self.costly(1, Excess::ControlFrames);
            }
            // Requests are bounded by the limit on concurrent streams and by admission.
            kind::HEADERS => (),
            kind::DATA => self.content(frame.length as u64),
            _ => self.idle(1),
        }
    }

    /// Counts a frame with `length` bytes of content.
    pub fn content(&mut self, length: u64) {
        self.idle(u32::from(length < PER_CREDIT as u64));
    }

    /// Counts frames that take a credit each.
    pub fn idle(&mut self, frames: u32) {
        match self.credits.checked_sub(frames) {
            Some(remaining) => self.credits = remaining,
            None => self.report(Excess::IdleFrames),
        }
    }

    /// Counts `frames` of which [`MAX_PER_WINDOW`] are allowed within ten seconds. Reports `excess` if there are more.
    pub fn costly(&mut self, frames: u32, excess: Excess) {
        self.costly = self.costly.saturating_add(frames);
        if self.costly > MAX_PER_WINDOW {
            self.report(excess);
        }
    }

    /// Counts a response head.
    pub fn answered(&mut self) {
        self.credits = (self.credits + PER_ANSWER).min(MAX_CREDITS);
    }

    /// Counts `length` bytes of content that the server sends.
    pub fn sent(&mut self, length: usize) {
        let content = self.uncredited + length;
        self.uncredited = content % PER_CREDIT;
        let earned = u32::try_from(content / PER_CREDIT).unwrap_or(u32::MAX);
        self.credits = self.credits.saturating_add(earned).min(MAX_CREDITS);
    }

    /// Counts content of a request that an operation has taken, for example to forward it. So small messages of a
    /// streaming client do not count as idle frames, but empty frames do.
    pub fn forwarded(&mut self, length: usize) {
        if length > 0 {
            let earned = u32::try_from(length / PER_CREDIT_TAKEN).unwrap_or(u32::MAX);
            self.credits = self.credits.saturating_add(earned).saturating_add(1).min(MAX_CREDITS);
        }
    }

    /// Counts a stream that the server resets.
    pub fn reset(&mut self) {
        self.reset += 1;
        if self.reset > MAX_PER_WINDOW {
            self.report(Excess::ServerResets);
        }
    }

    /// Reports a limit that was exceeded.
    pub fn report(&mut self, excess: Excess) {
        self.excess.get_or_insert(excess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, length: usize) -> Frame {
        Frame { length, kind, flags: 0, stream: 1 }
    }

    #[test]
    fn a_thousand_costly_frames_are_allowed() {
        let costly = [kind::PRIORITY, kind::RST_STREAM, kind::SETTINGS, kind::PING, kind::GOAWAY];
        for (last, excess) in
            [(kind::PING, Excess::ControlFrames), (kind::RST_STREAM, Excess::Resets)]
        {
            let mut flood = Flood::default();
            for n in 0..MAX_PER_WINDOW as usize {
                flood.received(&frame(costly[n % costly.len()], 8));
                // Responses earn no credits for resets.
                flood.answered();
            }
            assert_eq!(flood.excess(), None);
            flood.received(&frame(last, 8));
            assert_eq!(flood.excess(), Some(excess));
        }
        let mut flood = Flood::default();
        (0..MAX_PER_WINDOW).for_each(|_| flood.reset());
        assert_eq!(flood.excess(), None);
        flood.reset();
        assert_eq!(flood.excess(), Some(Excess::ServerResets));
    }

    #[test]
    fn idle_frames_take_credits() {
        // (kind, length)
        let idle = [
            (kind::WINDOW_UPDATE, 4),
            (kind::CONTINUATION, 0),
            (kind::DATA, 0),
            (kind::DATA, 255),
            (10, 0),
            (255, 16_384),
        ];
        for (kind, length) in idle {
            let mut flood = Flood::default();
            (0..MAX_PER_WINDOW).for_each(|_| flood.received(&frame(kind, length)));
            assert_eq!(flood.excess(), None, "{kind}");
            flood.received(&frame(kind, length));
            assert_eq!(flood.excess(), Some(Excess::IdleFrames), "{kind}");
        }
        let mut flood = Flood::default();
        (0..10 * MAX_PER_WINDOW).for_each(|_| flood.received(&frame(kind::HEADERS, 20)));
        (0..10 * MAX_PER_WINDOW).for_each(|_| flood.received(&frame(kind::DATA, 256)));
        assert_eq!(flood.excess(), None, "requests and content");
    }

    #[test]
    fn sent_frames_earn_credits() {
        let mut flood = Flood::default();
        for _ in 0..10 * MAX_PER_WINDOW {
            // Two windows are updated for each KiB, and four frames come with a small response.
            flood.sent(1024);
            (0..2).for_each(|_| flood.received(&frame(kind::WINDOW_UPDATE, 4)));
            flood.answered();
            (0..4).for_each(|_| flood.received(&frame(kind::WINDOW_UPDATE, 4)));
        }
        assert_eq!(flood.excess(), None);
        // Credits are bounded.
        (0..MAX_CREDITS).for_each(|_| flood.sent(16_384));
        (0..MAX_CREDITS).for_each(|_| flood.received(&frame(kind::WINDOW_UPDATE, 4)));
        assert_eq!(flood.excess(), None);
        flood.received(&frame(kind::WINDOW_UPDATE, 4));
        assert_eq!(flood.excess(), Some(Excess::IdleFrames));
        // Updates of one byte earn too few credits to continue.
        let mut flood = Flood::default();
        for _ in 0..2 * MAX_PER_WINDOW {
            flood.received(&frame(kind::WINDOW_UPDATE, 4));
            flood.sent(1);
        }
        assert_eq!(flood.excess(), Some(Excess::IdleFrames));
    }

    #[test]
    fn content_that_is_taken_earns_credits() {
        let consumed = |frames: usize, length: usize| {
            let mut flood = Flood::default();
            for _ in 0..2 * MAX_PER_WINDOW {
                (0..frames).for_each(|_| flood.received(&frame(kind::DATA, length)));
                flood.forwarded(frames * length);
            }
            flood.excess()
        };
        assert_eq!((consumed(1, 1), consumed(100, 16)), (None, None));
        let flood = Some(Excess::IdleFrames);
        assert_eq!((consumed(1, 0), consumed(100, 15)), (flood, flood));
    }

    #[test]
    fn a_new_window_resets_the_counts() {
        let mut flood = Flood::default();
        for second in 0..100 {
            flood.at(Duration::from_secs(second));
            for _ in 0..MAX_PER_WINDOW / 10 {
                flood.received(&frame(kind::PING, 8));
                flood.received(&frame(kind::WINDOW_UPDATE, 4));
                flood.reset();
            }
            assert_eq!(flood.excess(), None, "second {second}");
        }
    }
}
