//! How often things go wrong.

use fastrand::Rng;

/// How often things go wrong: each a number out of a thousand occasions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// A connection is reset when somebody sends on it.
    pub reset: u32,
    /// Accepting fails for want of descriptors (`EMFILE`), or since the client has gone
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
    /// Something takes up to two seconds, in place of a fraction of a millisecond.
    pub slow: u32,
    /// A call that could succeed says that it was interrupted or should be tried again (`EINTR`,
    /// `EAGAIN`): drivers hide that, so it shows as a delay.
    pub again: u32,
    /// Data of a file is not in the page cache.
    pub uncached: u32,
    /// A datagram is lost.
    pub lost: u32,
    /// A datagram arrives twice.
    pub duplicated: u32,
    /// A datagram may overtake earlier ones to the same socket.
    pub reordered: u32,
}

impl Faults {
    /// Everything goes well, and at once.
    pub const NONE: Self = Self {
        reset: 0,
        accept: 0,
        open: 0,
        disk: 0,
        full: 0,
        short: 0,
        slow: 0,
        again: 0,
        uncached: 0,
        lost: 0,
        duplicated: 0,
        reordered: 0,
    };

    /// What hurts nobody: delays and pieces, but no error.
    pub const MILD: Self = Self { short: 300, slow: 5, again: 200, uncached: 300, ..Self::NONE };

    /// Some kinds of faults often and others never, by `seed`: what only goes wrong when one thing
    /// always fails, or never does, is not found where everything fails now and then.
    pub fn drawn(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut rate = |most: u32| if rng.bool() { 0 } else { rng.u32(..=most) };
        Self {
            reset: rate(20),
            accept: rate(200),
            open: rate(200),
            disk: rate(200),
            full: rate(200),
            short: rate(800),
            slow: rate(50),
            again: rate(500),
            uncached: rate(1000),
            lost: rate(200),
            duplicated: rate(200),
            reordered: rate(500),
        }
    }
}
