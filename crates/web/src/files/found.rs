//! Results of lookups and of loads.

use std::sync::Arc;

use phalanx::stage::Offer;

use crate::files::cached::{CachedFile, FileRef};
use crate::files::entry::Entry;
use crate::files::failure::Failure;

/// The entry that a path leads to.
pub(crate) enum Found {
    File(FileRef),
    Directory,
}

/// Result of a lookup.
pub(crate) type LookupResult = Result<Found, Failure>;

/// Result of loading a path, for requests on any processor.
#[derive(Clone)]
pub(crate) enum Loaded {
    File(Offer<CachedFile>),
    /// Another encoding of a file.
    Variant(Arc<Entry>),
    Directory,
}

/// Result of a load.
pub(crate) type LoadResult = Result<Loaded, Failure>;
