//! Blocks of large files: operations of the file cache, like paths.

use std::io;
use std::sync::Arc;

use phalanx::Call;
use phalanx::fs::File;
use phalanx::net::Bytes;

use crate::files::aggregator;
use crate::files::cache::Value;
use crate::files::entry::FileId;
use crate::site::Site;
use crate::stages::Stages;

/// A block's bytes: as much as one send of an answer carries.
pub(crate) const BLOCK: u64 = 128 * 1024;

/// Asks for block `block` of `file`. Shorter than [`BLOCK`] only at the file's end.
pub(crate) fn block(
    stages: Stages,
    site: &Arc<Site>,
    file: &File,
    id: FileId,
    length: u64,
    block: u64,
) -> Call<io::Result<Bytes>> {
    let (site, file) = (site.clone(), file.clone());
    let key = site.block_key(id, block);
    stages.cache.call(key, move |cache| async move {
        if let Some(bytes) = cache.with(|cache| cache.block(key, id, block)) {
            return Ok(bytes);
        }
        let offset = block * BLOCK;
        let wanted = (length - offset).min(BLOCK) as usize;
        let bytes = aggregator::read(stages, &site, &file, id, offset, wanted).await?;
        // A file larger than its share would only drive everything else out.
        if bytes.len() == wanted && length <= site.streamed {
            // Not a slice of a merged read: that would keep all of it.
            let bytes = site.memory.content.reserve(wanted).hold(bytes.to_vec());
            cache.with(|cache| cache.insert(key, Value::Block { file: id, block, bytes }));
        }
        Ok(bytes)
    })
}
