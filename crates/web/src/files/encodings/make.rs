//! Creation of other encodings of a file: an operation on the cache partition that owns the file.

use std::sync::Arc;

use phalanx::blocking::BlockingError;
use phalanx::fs::{File, FileKind};
use phalanx::net::Bytes;
use phalanx::select;
use phalanx::shutdown::draining;
use phalanx::stage::{Offer, Partition};
use phalanx::sync::oneshot;
use phalanx::task::Either;
use phalanx_http::Coding;

use crate::files::cache::FileCache;
use crate::files::cached::{CachedFile, FileRef};
use crate::files::disk::{self, Opened};
use crate::files::encodings::encode::encode;
use crate::files::encodings::sources::precompressed_path;
use crate::files::encodings::variants::{Source, Variants};
use crate::files::entry::{Content, Entry, FileId, MAX_WHOLE_BYTES};
use crate::files::failure::Failure;
use crate::files::found::Loaded;
use crate::files::lookup::{Loading, Lookup};
use crate::files::read::read;
use crate::files::stages::FileStages;
use crate::memory::Budget;
use crate::site::{HostIndex, Site};

/// Returns `file`, which is at `path`, in this encoding, waiting for it if necessary.
///
/// # Errors
/// [`Failure::Busy`] if too much is being compressed; others if the encoding is unavailable.
pub(crate) async fn obtain(
    stages: FileStages,
    site: &Arc<Site>,
    host: HostIndex,
    path: &[u8],
    file: &FileRef,
    coding: Coding,
) -> Result<Arc<Entry>, Failure> {
    let lookup = Lookup::new(stages, site, host, path.to_vec());
    let file = file.offer();
    let call = stages.cache.call(lookup.key, move |cache| async move {
        make(&lookup, &cache, &file, coding, true).await
    });
    call.await.unwrap_or(Err(Failure::Busy))
}

/// Starts creating an encoding for later requests.
pub(crate) fn begin(
    stages: FileStages,
    site: &Arc<Site>,
    host: HostIndex,
    path: &[u8],
    file: &FileRef,
    coding: Coding,
) {
    let lookup = Lookup::new(stages, site, host, path.to_vec());
    let attempt = AttemptGuard { file: file.offer(), coding };
    // If it is refused, dropping the operation allows another attempt.
    let _ = stages.cache.dispatch(lookup.key, move |cache| async move {
        let _ = make(&lookup, &cache, &attempt.file, coding, false).await;
    });
}

/// Allows another attempt when it is dropped; has no effect if the encoding was created.
struct AttemptGuard {
    file: Offer<CachedFile>,
    coding: Coding,
}

impl Drop for AttemptGuard {
    fn drop(&mut self) {
        if let Some(variants) = &self.file.variants {
            variants.abandon(self.coding);
        }
    }
}

/// Creates an encoding, or waits for the operation that already does. With `waited_for`, a client needs it
/// now; it is then created even if it cannot be cached.
async fn make(
    lookup: &Lookup,
    cache: &Partition<FileCache>,
    file: &Offer<CachedFile>,
    coding: Coding,
    waited_for: bool,
) -> Result<Arc<Entry>, Failure> {
    let variants: &Variants = file.variants.as_deref().ok_or(Failure::Missing)?;
    let host = lookup.host().id;
    // No file name contains a zero byte.
    let path = [&lookup.path, &b"\0"[..], coding.name().as_bytes()].concat();
    let key = lookup.site.key(host, &path);
    loop {
        if let Some(variant) = variants.ready(coding) {
            return Ok(variant.clone());
        }
        variants.pending_source(coding).ok_or(Failure::Missing)?;
        if cache.with(|cache| cache.begin_loading(key, host, &path)) {
            break;
        }
        let (sender, loaded) = oneshot::local();
        if !cache.with(|cache| cache.wait_for(key, host, &path, sender)) {
            return Err(Failure::Missing);
        }
        match loaded.await {
            Some(Ok(Loaded::Variant(variant))) => return Ok(variant),
            Some(Ok(_)) => return Err(Failure::Missing),
            Some(Err(failure)) => return Err(failure),
            // The operation that created it was terminated.
            None => (),
        }
    }
    let loading = Loading { cache, key };
    let kept = cache.with(|cache| cache.holds(lookup.key, file));
    let made = match variants.pending_source(coding).ok_or(Failure::Missing)? {
        Source::Precompressed(id) => read_precompressed(lookup, file, coding, id).await,
        Source::Compressed if kept || waited_for => {
            compress(lookup, file, coding, waited_for).await
        }
        Source::Compressed | Source::None => return Err(Failure::Missing),
    };
    if let Ok(variant) = &made {
        cache.with(|cache| {
            let bytes = variant.as_ref().map_or(0, |variant| variant.bytes());
            if cache.holds(lookup.key, file) && cache.has_room(bytes) {
                variants.set(coding, variant.clone());
                cache.weigh(lookup.key);
            } else if cache.holds(lookup.key, file) && !waited_for {
                // Too large to cache: record it as unavailable, so that it is not created again and again.
                variants.set(coding, None);
            }
        });
    }
    let made = made.and_then(|made| made.ok_or(Failure::Missing));
    loading.end(&made.clone().map(Loaded::Variant));
    made
}

/// Reads the precompressed file, unless it has changed since it was found.
async fn read_precompressed(
    lookup: &Lookup,
    entry: &Entry,
    coding: Coding,
    id: FileId,
) -> Result<Option<Arc<Entry>>, Failure> {
    let path = precompressed_path(&lookup.path, coding);
    let Opened { file, metadata } = disk::open(lookup.stages, lookup.host(), &path).await?;
    if metadata.kind != FileKind::File || FileId::from(metadata) != id {
        // The next check of the file will notice.
        return Err(Failure::Missing);
    }
    let content = if metadata.length > MAX_WHOLE_BYTES {
        Content::Blocks(file)
    } else {
        let length = metadata.length as usize;
        let bytes = match length {
            0 => Bytes::new(),
            _ => read(lookup.stages, &lookup.site, &file, id, 0, length).await?,
        };
        if bytes.len() < length || file.metadata()? != metadata {
            return Err(Failure::Broken);
        }
        Content::Whole(bytes)
    };
    Ok(Some(Arc::new(entry.precompressed(coding, metadata, content))))
}

/// Compresses the file. Returns `None` if that is not worthwhile. The thread that compresses the file also
/// reads it, so a file in the queue takes no memory.
async fn compress(
    lookup: &Lookup,
    entry: &Entry,
    coding: Coding,
    waited_for: bool,
) -> Result<Option<Arc<Entry>>, Failure> {
    let memory = &lookup.site.memory;
    let refused = || {
        memory.uncompressed.add(1);
        Failure::Busy
    };
    let length = entry.length as usize;
    let turn = memory.compressing.try_reserve(length).ok_or_else(refused)?;
    let (content, id, budget) = (entry.content.clone(), entry.id, memory.content.clone());
    let stage = lookup.site.blocking().ok_or(Failure::Busy)?.compression;
    let call = stage.call(move |()| {
        let _turn = turn;
        read_and_encode(content, id, length, coding, &budget)
    });
    let encoded = if waited_for {
        call.await
    } else {
        // No client waits for this job, so it is dropped at shutdown.
        match select(call, draining()).await {
            Either::Left(encoded) => encoded,
            Either::Right(()) => return Err(Failure::Busy),
        }
    };
    match encoded {
        Ok(Ok(encoded)) => Ok(encoded.map(|encoded| Arc::new(entry.encoded(coding, encoded)))),
        Ok(Err(Failure::Busy)) | Err(BlockingError::Full { .. }) => Err(refused()),
        Ok(Err(failure)) => Err(failure),
        Err(_) => Err(Failure::Broken),
    }
}

/// Runs on a thread of the compression stage. Fails with [`Failure::Busy`] if `budget` is exhausted.
fn read_and_encode(
    content: Content,
    id: FileId,
    length: usize,
    coding: Coding,
    budget: &Budget,
) -> Result<Option<Bytes>, Failure> {
    // For the file and its compressed form.
    let room = budget.try_reserve(2 * length).ok_or(Failure::Busy)?;
    let bytes = match content {
        Content::Whole(bytes) => bytes,
        Content::Blocks(file) => read_all(&file, id, length)?.into(),
    };
    Ok(encode(&bytes, coding).map(|encoded| room.hold(encoded)))
}

/// Reads all of a large file in version `id`. Blocks.
fn read_all(file: &File, id: FileId, length: usize) -> Result<Vec<u8>, Failure> {
    let before = file.metadata()?;
    let bytes = file.read_at_blocking(0, length)?;
    // The same metadata before and after: no concurrent write.
    if FileId::from(before) != id || file.metadata()? != before {
        return Err(Failure::Missing);
    }
    if bytes.len() < length { Err(Failure::Broken) } else { Ok(bytes) }
}
