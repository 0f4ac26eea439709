//! Creation of other encodings of a file: an operation on the cache partition that owns the file.

use std::sync::Arc;

use phalanx::blocking::BlockingError;
use phalanx::fs::{File, FileKind};
use phalanx::net::Bytes;
use phalanx::shutdown::draining;
use phalanx::stage::{Offer, Partition};
use phalanx::sync::oneshot;
use phalanx::task::Either;
use phalanx::{Call, select};
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
use crate::files::loads::{LoadGuard, LoadWaiter};
use crate::files::lookup::Lookup;
use crate::files::read::read;
use crate::files::stages::FileStages;
use crate::memory::Budget;
use crate::site::{HostIndex, Site};

/// Returns `file`, which is at `path`, in this encoding; waits until it is created if necessary. If the future is
/// dropped and no other request waits, the creation is cancelled.
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
        get_or_create(&lookup, &cache, &file, coding, true).await
    });
    let mut call = CancelGuard(call);
    (&mut call.0).await.unwrap_or(Err(Failure::Busy))
}

/// A call that is cancelled when its caller stops waiting.
struct CancelGuard<T>(Call<T>);

impl<T> Drop for CancelGuard<T> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Starts creating an encoding for later requests.
pub(crate) fn start_creating(
    stages: FileStages,
    site: &Arc<Site>,
    host: HostIndex,
    path: &[u8],
    file: &FileRef,
    coding: Coding,
) {
    let lookup = Lookup::new(stages, site, host, path.to_vec());
    let attempt = AttemptGuard { file: file.offer(), coding };
    // If the dispatch fails, the dropped guard allows another attempt.
    let _ = stages.cache.dispatch(lookup.key, move |cache| async move {
        let _ = get_or_create(&lookup, &cache, &attempt.file, coding, false).await;
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

/// Returns an encoding. If no operation is creating it, starts one. `has_waiter` means that a client waits; the
/// encoding is then created even if it cannot be cached.
async fn get_or_create(
    lookup: &Lookup,
    cache: &Partition<FileCache>,
    file: &Offer<CachedFile>,
    coding: Coding,
    has_waiter: bool,
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
        if cache.with(|cache| cache.loads.begin(key, host, &path)) {
            let (stages, lookup, file) = (lookup.stages, lookup.clone(), file.clone());
            // A separate operation, because several clients may wait for the result, and each may disconnect.
            let dispatched = stages.cache.dispatch(lookup.key, move |cache| async move {
                let loading = LoadGuard { cache: &cache, key };
                let created = create(&lookup, &cache, &file, (coding, key), has_waiter).await;
                loading.end(&created.map(Loaded::Variant));
            });
            if dispatched.is_err() {
                drop(LoadGuard { cache, key });
                return Err(Failure::Busy);
            }
        }
        let (sender, receiver) = oneshot::local();
        if !cache.with(|cache| cache.loads.wait_for(key, host, &path, sender)) {
            return Err(Failure::Missing);
        }
        match (LoadWaiter { cache, key, receiver, is_done: false }).result().await {
            Some(Ok(Loaded::Variant(variant))) => return Ok(variant),
            Some(Ok(_)) => return Err(Failure::Missing),
            Some(Err(failure)) => return Err(failure),
            // The operation that created it was terminated.
            None => (),
        }
    }
}

/// Creates an encoding; `key` identifies it among the loads in progress.
async fn create(
    lookup: &Lookup,
    cache: &Partition<FileCache>,
    file: &Offer<CachedFile>,
    (coding, key): (Coding, u64),
    has_waiter: bool,
) -> Result<Arc<Entry>, Failure> {
    let variants: &Variants = file.variants.as_deref().ok_or(Failure::Missing)?;
    let is_cached = cache.with(|cache| cache.contains(lookup.key, file));
    let created = match variants.pending_source(coding).ok_or(Failure::Missing)? {
        Source::Precompressed(id) => read_precompressed(lookup, file, coding, id).await?,
        Source::Compressed if is_cached || has_waiter => {
            let unwanted = cache.with(|cache| cache.loads.unwanted(key));
            compress(lookup, file, coding, unwanted).await?
        }
        Source::Compressed | Source::None => return Err(Failure::Missing),
    };
    cache.with(|cache| {
        let size = |variant: &Arc<Entry>| (variant.bytes(), variant.open_files());
        let (bytes, open_files) = created.as_ref().map_or((0, 0), size);
        if cache.contains(lookup.key, file) && cache.has_capacity(lookup.key, bytes, open_files) {
            variants.set_result(coding, created.clone());
            cache.update_size(lookup.key);
        } else if cache.contains(lookup.key, file) && !has_waiter {
            // Too large to cache: record it as unavailable, so that it is not created again and again.
            variants.set_result(coding, None);
            lookup.site.memory.uncompressed.add(1);
        }
    });
    created.ok_or(Failure::Missing)
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
        // The next check of the file will notice the change.
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
        if bytes.len() < length || FileId::from(file.metadata()?) != id {
            return Err(Failure::Broken);
        }
        Content::Whole(bytes)
    };
    Ok(Some(Arc::new(entry.precompressed(coding, metadata, content))))
}

/// Compresses the file, unless the result becomes `unwanted` or the program shuts down. Returns `None` if compression
/// saves too little. The thread that compresses the file also reads it, so files in the queue occupy no memory.
async fn compress(
    lookup: &Lookup,
    entry: &Entry,
    coding: Coding,
    unwanted: oneshot::LocalReceiver<()>,
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
    // Dropping this operation interrupts the thread.
    let waiting = Arc::new(());
    let waits = Arc::downgrade(&waiting);
    let call = stage.call(move |()| {
        let _turn = turn;
        read_and_encode((content, id, length), coding, &budget, &|| waits.strong_count() > 0)
    });
    let encoded = match select(call, select(unwanted, draining())).await {
        Either::Left(encoded) => encoded,
        Either::Right(_) => {
            memory.abandoned.add(1);
            return Err(Failure::Busy);
        }
    };
    match encoded {
        Ok(Ok(encoded)) => Ok(encoded.map(|encoded| Arc::new(entry.encoded(coding, encoded)))),
        Ok(Err(Failure::Busy)) | Err(BlockingError::Full { .. }) => Err(refused()),
        Ok(Err(failure)) => Err(failure),
        Err(_) => Err(Failure::Broken),
    }
}

/// Runs on a thread of the compression stage. Fails with [`Failure::Busy`] if `budget` is exhausted, or if the result is no
/// longer wanted.
fn read_and_encode(
    (content, id, length): (Content, FileId, usize),
    coding: Coding,
    budget: &Budget,
    is_wanted: &dyn Fn() -> bool,
) -> Result<Option<Bytes>, Failure> {
    // Memory for the file and its compressed form.
    let room = budget.try_reserve(2 * length).ok_or(Failure::Busy)?;
    let bytes = match content {
        Content::Whole(bytes) => bytes,
        Content::Blocks(file) => read_all(&file, id, length)?.into(),
    };
    let encoded = encode(&bytes, coding, is_wanted).map_err(|_| Failure::Busy)?;
    Ok(encoded.map(|encoded| room.hold(encoded)))
}

/// Reads all of a large file in version `id`. Blocks.
fn read_all(file: &File, id: FileId, length: usize) -> Result<Vec<u8>, Failure> {
    let version = || file.metadata().map(FileId::from);
    let before = version()?;
    let bytes = file.read_at_blocking(0, length)?;
    // The same version before and after: no concurrent write.
    if before != id || version()? != id {
        return Err(Failure::Missing);
    }
    if bytes.len() < length { Err(Failure::Broken) } else { Ok(bytes) }
}
