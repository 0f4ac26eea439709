//! Files: lookup, cache, encodings and disk access.

pub(crate) mod aggregator;
pub(crate) mod blocks;
pub(crate) mod cache;
pub(crate) mod cached;
pub(crate) mod disk;
pub(crate) mod encodings;
pub(crate) mod entry;
pub(crate) mod failure;
pub(crate) mod found;
pub(crate) mod list;
pub(crate) mod loads;
pub(crate) mod lookup;
pub(crate) mod read;
pub(crate) mod stages;
