//! Checks of the documentation.

pub(super) mod index;
pub(super) mod links;
pub(super) mod quotes;
pub(super) mod report_section;
