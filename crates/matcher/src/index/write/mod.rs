//! Changes of an index: filing rows, and reorganization.

pub(crate) mod advice;
pub(crate) mod coding;
pub(crate) mod index;
pub(crate) mod placing;
pub(crate) mod progress;
pub(crate) mod refiling;
pub(crate) mod releasing;
pub(crate) mod reorganize;
pub(crate) mod walk;
