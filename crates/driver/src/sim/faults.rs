//! Fault rates.

use fastrand::Rng;

/// Fault rates, each per thousand occasions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// A connection is reset by a send, or by a receive of bytes that have arrived.
    pub reset: u32,
    /// Accepting fails because the process is out of descriptors (`EMFILE`) or the client has left
    /// (`ECONNABORTED`).
    pub accept: u32,
    /// Opening a file fails (`EMFILE`, `EIO`).
    pub open: u32,
    /// Reading or writing a file fails (`EIO`).
    pub disk: u32,
    /// Writing a file finds the disk full (`ENOSPC`).
    pub full: u32,
    /// A call moves fewer bytes than it could.
    pub short: u32,
    /// An arrival or a completion takes up to two seconds, instead of a fraction of a millisecond.
    pub slow: u32,
    /// A call that could succeed returns `EINTR` or `EAGAIN`. Drivers repeat the call, so it appears as a delay.
    pub retry: u32,
    /// Data of a file is not in the page cache.
    pub uncached: u32,
    /// A datagram is lost.
    pub lost: u32,
    /// A datagram arrives twice.
    pub duplicated: u32,
    /// A datagram may overtake earlier ones to the same socket.
    pub reordered: u32,
    /// A write or an accept completes immediately, as most of them do with real drivers, instead of in a later turn.
    pub immediate: u32,
    /// A program's TCP connect fails (`ECONNREFUSED`, `ETIMEDOUT`). Connects of simulated clients never fail this way.
    pub connect: u32,
}

impl Faults {
    /// No faults and no delays.
    pub const NONE: Self = Self {
        reset: 0,
        accept: 0,
        open: 0,
        disk: 0,
        full: 0,
        short: 0,
        slow: 0,
        retry: 0,
        uncached: 0,
        lost: 0,
        duplicated: 0,
        reordered: 0,
        immediate: 0,
        connect: 0,
    };

    /// Delays and short transfers, but no errors.
    pub const MILD: Self =
        Self { short: 300, slow: 5, retry: 200, uncached: 300, immediate: 500, ..Self::NONE };

    /// Rates drawn from `seed`: some faults are frequent and others never happen. This finds bugs that appear only when
    /// one call always fails, or never does.
    pub fn random(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut rate = |max: u32| if rng.bool() { 0 } else { rng.u32(..=max) };
        Self {
            reset: rate(20),
            accept: rate(200),
            open: rate(200),
            disk: rate(200),
            full: rate(200),
            short: rate(800),
            slow: rate(50),
            retry: rate(500),
            uncached: rate(1000),
            lost: rate(200),
            duplicated: rate(200),
            reordered: rate(500),
            immediate: rate(1000),
            connect: rate(200),
        }
    }
}
