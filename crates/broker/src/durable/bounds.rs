//! Bounds of the changes that wait for the disk, in bytes.

/// Changes that are noted and committed at once, but for the last of them.
pub(crate) const PIECE: usize = 1 << 20;

/// Changes that wait for the disk; beyond, there is no room for more.
const MOST_WAITING: usize = 64 << 20;

/// Beyond so many, messages that nobody is promised to keep wait with the disk, too: they take as long to write, and others
/// wait behind them.
pub(crate) const LONG: usize = 4 * PIECE;

/// The bounds of one ledger.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// See [`PIECE`].
    pub(crate) piece: usize,
    /// See [`LONG`].
    pub(crate) long: usize,
    /// See [`MOST_WAITING`].
    pub(crate) most: usize,
}

impl Bounds {
    /// Where room is set aside for a full disk, the changes that wait when it is full must fit in a third of that.
    pub(crate) fn new(reserve: u64) -> Self {
        let third = usize::try_from(reserve / 3).unwrap_or(usize::MAX);
        let most = if reserve > 0 { MOST_WAITING.min(third) } else { MOST_WAITING };
        Self { piece: PIECE.min(most / 2), long: LONG.min(most / 2), most }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_fits_in_the_reserve() {
        let usual = Bounds { piece: PIECE, long: LONG, most: MOST_WAITING };
        assert_eq!(Bounds::new(0), usual);
        assert_eq!(Bounds::new(192 << 20), usual);
        let small = Bounds { piece: 256 << 10, long: 256 << 10, most: 512 << 10 };
        assert_eq!(Bounds::new(1536 << 10), small);
    }
}
