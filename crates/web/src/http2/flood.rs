//! Frames that cost their receiver more than their sender: pings, settings, priorities and resets.
//!
//! An honest client sends a few. One that sends many wants the server busy (CVE-2019-9512, -9513,
//! -9515; CVE-2023-44487, "rapid reset"), and is told to calm down. What is counted is seen on the way in,
//! before the protocol acts on it.

use std::time::Duration;

/// So many within [`WINDOW`] are let pass.
const ALLOWED: u32 = 1000;
/// The count begins anew after this long.
const WINDOW: Duration = Duration::from_secs(10);

/// A client's first bytes, which are no frame (RFC 9113 §3.4).
const PREFACE: usize = 24;
/// A frame's head (RFC 9113 §4.1).
const HEAD: usize = 9;

const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACK: u8 = 1;

/// Follows the frames of one connection.
pub(super) struct Flood {
    /// Bytes to pass over: the rest of a frame, or of the preface.
    skip: usize,
    /// The head that is being gathered.
    head: [u8; HEAD],
    gathered: usize,
    since: Duration,
    count: u32,
}

impl Flood {
    pub(super) fn new() -> Self {
        Self { skip: PREFACE, head: [0; HEAD], gathered: 0, since: Duration::ZERO, count: 0 }
    }

    /// Looks at what has just come. False once it is too much.
    pub(super) fn see(&mut self, mut bytes: &[u8], now: Duration) -> bool {
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return self.count <= ALLOWED;
            }
            let taken = (HEAD - self.gathered).min(bytes.len());
            self.head[self.gathered..self.gathered + taken].copy_from_slice(&bytes[..taken]);
            self.gathered += taken;
            bytes = &bytes[taken..];
            if self.gathered == HEAD {
                self.gathered = 0;
                let [a, b, c, kind, flags, ..] = self.head;
                self.skip = u32::from_be_bytes([0, a, b, c]) as usize;
                self.frame(kind, flags, now);
            }
        }
    }

    fn frame(&mut self, kind: u8, flags: u8, now: Duration) {
        let costly = match kind {
            PRIORITY | RST_STREAM => true,
            // Answers to our own are as many as we asked for.
            SETTINGS | PING => flags & ACK == 0,
            _ => false,
        };
        if !costly {
            return;
        }
        if now.saturating_sub(self.since) >= WINDOW {
            (self.since, self.count) = (now, 0);
        }
        self.count = self.count.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, length: u32) -> Vec<u8> {
        let [_, a, b, c] = length.to_be_bytes();
        let mut frame = vec![a, b, c, kind, flags, 0, 0, 0, 1];
        frame.resize(HEAD + length as usize, 0xff);
        frame
    }

    fn preface() -> Vec<u8> {
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()
    }

    #[test]
    fn a_thousand_are_let_pass_however_they_are_cut() {
        let costly = [(PRIORITY, 0, 5), (RST_STREAM, 0, 4), (SETTINGS, 0, 6), (PING, 0, 8)];
        for cut in [1, 7, 9, 24, 1000] {
            let mut bytes = preface();
            for n in 0..ALLOWED as usize {
                let (kind, flags, length) = costly[n % costly.len()];
                bytes.extend(frame(kind, flags, length));
            }
            let mut flood = Flood::new();
            let calm = bytes.chunks(cut).all(|piece| flood.see(piece, Duration::ZERO));
            assert!(calm, "cut at {cut}");
            assert!(!flood.see(&frame(PING, 0, 8), Duration::ZERO), "cut at {cut}");
        }
    }

    #[test]
    fn others_are_not_counted_and_time_heals() {
        let mut flood = Flood::new();
        assert!(flood.see(&preface(), Duration::ZERO));
        for _ in 0..10 * ALLOWED {
            // DATA, HEADERS, WINDOW_UPDATE and answers to our own.
            for (kind, flags, length) in [(0, 0, 100), (1, 4, 20), (8, 0, 4), (SETTINGS, ACK, 0)] {
                assert!(flood.see(&frame(kind, flags, length), Duration::ZERO));
            }
        }
        for second in 0..100 {
            for _ in 0..ALLOWED / 10 {
                assert!(flood.see(&frame(PING, 0, 8), Duration::from_secs(second)));
            }
        }
    }
}
