//! The types of operations that a processor has noted.

use std::cell::RefCell;

use crate::operation::slot::VTable;

/// Types that a processor notes at most.
pub(crate) const MAX_TYPES: usize = 256;

/// The types that a processor has noted: by stage and vtable.
#[derive(Default)]
pub(crate) struct SeenTypes(pub(crate) RefCell<Vec<(u8, &'static VTable)>>);
