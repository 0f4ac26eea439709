//! The admin pages and what reads them.

mod browser;
pub(crate) mod openmetrics;
mod pages;
pub(crate) mod snapshots;
mod top;
