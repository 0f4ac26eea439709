//! The key of a stage in an invocation.

use std::panic::Location;

use crate::operation::slot::Site;

/// A stage and its graph. It is one word, because every invocation passes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u64);

impl Key {
    pub(crate) fn new(graph: u64, stage: u8) -> Self {
        assert!(graph >> 56 == 0, "fewer than 2⁵⁶ graphs in the life of a process");
        Self(graph << 8 | u64::from(stage))
    }

    /// The stage's number, if the stage belongs to the graph whose first stage has the key `first`.
    #[inline(always)]
    pub(crate) fn among(self, first: Key) -> Option<u8> {
        let stage = self.0 ^ first.0;
        (stage < 64).then_some(stage as u8)
    }

    #[inline]
    pub(crate) fn stage(self) -> u8 {
        self.0 as u8
    }

    /// The call site of an invocation of this stage by the caller of this function.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn call_site(self) -> CallSite {
        CallSite { key: self, site: Location::caller() }
    }
}

/// The invoked stage, and the source location of the invocation.
#[derive(Clone, Copy)]
pub(crate) struct CallSite {
    pub(crate) key: Key,
    pub(crate) site: Site,
}
