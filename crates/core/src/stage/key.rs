//! What names a stage in an invocation.

use std::panic::Location;

use crate::operation::published::Site;

/// Which stage of which graph, in one word: it travels in every invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u64);

impl Key {
    pub(crate) fn new(graph: u64, stage: u8) -> Self {
        assert!(graph >> 56 == 0, "fewer than 2⁵⁶ graphs in the life of a process");
        Self(graph << 8 | u64::from(stage))
    }

    /// The stage's number, if the stage is of the graph whose stage zero is `first`.
    #[inline(always)]
    pub(crate) fn among(self, first: Key) -> Option<u8> {
        let stage = self.0 ^ first.0;
        (stage < 64).then_some(stage as u8)
    }

    #[inline]
    pub(crate) fn stage(self) -> u8 {
        self.0 as u8
    }

    /// An invocation of the stage by whoever calls this.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn invoked(self) -> Invocation {
        Invocation { key: self, site: Location::caller() }
    }
}

/// Which stage is invoked, and where in the program.
#[derive(Clone, Copy)]
pub(crate) struct Invocation {
    pub(crate) key: Key,
    pub(crate) site: Site,
}
