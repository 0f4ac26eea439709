//! A policy for operations that are invoked on a processor by its number, and that know the number of
//! processors.

use std::rc::Rc;

use phalanx::stage::Policy;

/// The policy; it keeps no state except the location.
pub(crate) struct Everywhere;

/// A processor.
#[derive(Clone, Copy)]
pub(crate) struct At {
    pub(crate) processor: usize,
    pub(crate) processors: usize,
}

impl Policy for Everywhere {
    /// `None` is the current processor.
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
