//! Blocks of large files, cached like small files.

use std::io;
use std::sync::Arc;

use phalanx::Call;
use phalanx::fs::File;
use phalanx::net::Bytes;

use crate::files::cache::Value;
use crate::files::entry::FileId;
use crate::files::read::read;
use crate::files::stages::FileStages;
use crate::site::Site;

/// Block size in bytes: the content of one send.
pub(crate) const BLOCK: u64 = 128 * 1024;

/// Requests block `block` of `file`. The result is shorter than [`BLOCK`] only at the end of the file.
pub(crate) fn block(
    stages: FileStages,
    site: &Arc<Site>,
    file: &File,
    id: FileId,
    length: u64,
    block: u64,
) -> Call<io::Result<Bytes>> {
    let (site, file) = (site.clone(), file.clone());
    let key = site.cache_key((id, block));
    stages.cache.call(key, move |cache| async move {
        if let Some(bytes) = cache.with(|cache| cache.block(key, id, block)) {
            return Ok(bytes);
        }
        let offset = block * BLOCK;
        let wanted = (length - offset).min(BLOCK) as usize;
        let bytes = read(stages, &site, &file, id, offset, wanted).await?;
        // Caching a very large file would evict everything else.
        if bytes.len() == wanted && length <= site.streamed {
            // A copy, because a slice would keep the whole merged read in memory.
            let bytes = site.memory.content.reserve(wanted).hold(bytes.to_vec());
            cache.with(|cache| cache.insert(key, Value::Block { file: id, block, bytes }));
        }
        Ok(bytes)
    })
}
