//! Reads parts of files through the aggregator.

use std::io;

use phalanx::fs::File;

use crate::files::aggregator::{Answer, Read};
use crate::files::entry::FileId;
use crate::files::stages::FileStages;
use crate::site::Site;

/// Reads `length` bytes of `file` at `offset`; fewer only at the end of the file.
///
/// # Errors
/// Like [`File::read_at`]; a [`CallError`](phalanx::CallError) inside if the processor has too many operations.
pub(crate) async fn read(
    stages: FileStages,
    site: &Site,
    file: &File,
    id: FileId,
    offset: u64,
    length: usize,
) -> Answer {
    // Reserved before the read, so that concurrent reads see each other's memory.
    let reserved = site.memory.content.reserve(length);
    let item = Read { file: file.clone(), id, offset, length, reserved };
    let call = stages.aggregator.call(site.cache_key((id, 0_u64)), item);
    call.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}
