//! A policy for operations that go to a processor by its number, and learn how many there are.

use std::rc::Rc;

use phalanx::Policy;

/// Keeps nothing but where it is.
pub(crate) struct Everywhere;

/// A processor.
#[derive(Clone, Copy)]
pub(crate) struct At {
    pub(crate) processor: usize,
    pub(crate) processors: usize,
}

impl Policy for Everywhere {
    /// None: here.
    type Key = Option<usize>;
    type Local = At;
    type Access = At;

    fn local(&self, processor: usize, processors: usize) -> At {
        At { processor, processors }
    }

    fn place(&self, key: &Option<usize>, here: usize, _processors: usize) -> usize {
        key.unwrap_or(here)
    }

    fn access(local: &Rc<At>, _key: Option<usize>) -> At {
        **local
    }
}
