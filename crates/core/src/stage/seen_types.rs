//! The operation types that a processor has recorded.

use std::cell::RefCell;

use crate::operation::slot::VTable;

/// The maximum number of types that a processor records.
pub(crate) const MAX_TYPES: usize = 256;

/// The recorded types, by stage and vtable.
#[derive(Default)]
pub(crate) struct SeenTypes(pub(crate) RefCell<Vec<(u8, &'static VTable)>>);
