//! Path lookup, an operation of the file cache.
//!
//! A hit is answered immediately, on any processor: from the partition if this processor owns it, otherwise from a
//! replica in the file index. A miss opens and reads the file once, for all concurrent requests, and so does a hit
//! whose last check for changes is too old. Both are operations of the partition that owns the path.

use std::sync::Arc;
use std::time::Duration;

use phalanx::fs::{FileKind, Metadata};
use phalanx::net::Bytes;
use phalanx::stage::{Offer, Partition};
use phalanx::sync::oneshot;
use phalanx::time::now;

use crate::files::cache::{FileCache, Value};
use crate::files::cached::{CachedFile, FileRef};
use crate::files::disk::{self, Opened};
use crate::files::encodings::sources;
use crate::files::encodings::variants::Sources;
use crate::files::entry::{Content, Entry, Fields, FileId, MAX_WHOLE_BYTES};
use crate::files::failure::Failure;
use crate::files::found::{Found, LoadResult, Loaded, LookupResult};
use crate::files::list;
use crate::files::loads::LoadGuard;
use crate::files::read::read;
use crate::files::stages::FileStages;
use crate::site::{Host, HostId, HostIndex, Site};

/// Attempts to read a file that changes while it is read: with slow disks and busy writers, a few attempts may fail.
const MAX_ATTEMPTS: usize = 5;

/// Looks up a host's `path` in the partition that owns it. Also returns the memory of the path.
pub(crate) async fn look_up(
    stages: FileStages,
    site: &Arc<Site>,
    host: HostIndex,
    path: Vec<u8>,
) -> (Vec<u8>, LookupResult) {
    let id = site[host].id;
    let key = site.key(id, &path);
    let hit = cached(stages, key, (id, &path), site.timeouts.revalidate);
    site.metrics.lookup(hit.is_some());
    if let Some(file) = hit {
        return (path, Ok(Found::File(file)));
    }
    Box::pin(load_or_revalidate(Lookup { stages, site: site.clone(), host, key, path })).await
}

/// The file at a host's path if it is cached, and was checked less than `limit` ago.
#[inline]
fn cached(
    stages: FileStages,
    key: u64,
    (id, path): (HostId, &[u8]),
    limit: Duration,
) -> Option<FileRef> {
    let fresh = |cache: &mut FileCache| cache.fresh(key, id, path, now(), limit);
    let hit = match stages.cache.try_with_local(key, fresh) {
        Some(hit) => hit,
        None => {
            let is_hit = |file: &CachedFile| file.is_at(id, path) && file.is_fresh(now(), limit);
            stages.index.get(key, is_hit).inspect(|file| file.touch())
        }
    };
    hit.filter(|file| !file.has_changed())
}

/// Looks up a path that has no fresh entry here. If a processor has too many operations to check an entry, it is used
/// unchecked.
async fn load_or_revalidate(lookup: Lookup) -> (Vec<u8>, LookupResult) {
    let (stages, key) = (lookup.stages, lookup.key);
    let (id, own) = (lookup.id(), lookup.path.clone());
    let call = stages.cache.call(key, move |cache| async move {
        let Lookup { site, path, .. } = &lookup;
        let limit = site.timeouts.revalidate;
        let result = match cache.with(|cache| cache.file(key, lookup.id(), path, now(), limit)) {
            Some(hit) if !hit.stale && !hit.file.has_changed() => Ok(Loaded::File(hit.file)),
            // Boxed, so that a hit does not reserve the memory of a miss.
            Some(hit) => Box::pin(lookup.revalidate(&cache, hit.file)).await,
            None => Box::pin(lookup.load(&cache)).await,
        };
        (lookup.path, result)
    });
    let (path, result) = match call.await {
        Ok(done) => done,
        Err(error) => {
            let failure = Failure::from(&error);
            let is_busy = failure == Failure::Busy;
            let unchecked =
                is_busy.then(|| cached(stages, key, (id, &own), Duration::MAX)).flatten();
            let result = unchecked.map(Found::File).ok_or(failure);
            return (own, result);
        }
    };
    let result = match result {
        Ok(Loaded::File(file)) if stages.cache.is_local(key) => {
            Ok(Found::File(file.into_replica()))
        }
        Ok(Loaded::File(file)) => Ok(Found::File(stages.index.keep(file))),
        Ok(Loaded::Directory) => Ok(Found::Directory),
        // A client cannot request the internal name of an encoding.
        Ok(Loaded::Variant(_)) => Err(Failure::Missing),
        Err(failure) => Err(failure),
    };
    (path, result)
}

/// A path to look up.
#[derive(Clone)]
pub(crate) struct Lookup {
    pub(crate) stages: FileStages,
    pub(crate) site: Arc<Site>,
    host: HostIndex,
    pub(crate) key: u64,
    pub(crate) path: Vec<u8>,
}

impl Lookup {
    #[inline]
    pub(crate) fn new(
        stages: FileStages,
        site: &Arc<Site>,
        host: HostIndex,
        path: Vec<u8>,
    ) -> Self {
        let key = site.key(site[host].id, &path);
        Self { stages, site: site.clone(), host, key, path }
    }

    pub(crate) fn host(&self) -> &Arc<Host> {
        &self.site[self.host]
    }

    fn id(&self) -> HostId {
        self.host().id
    }

    /// Checks whether the file has changed, and reloads it if so. If the file cannot be opened now because descriptors,
    /// memory or operations have run out, the entry remains until the next check.
    async fn revalidate(
        &self,
        cache: &Partition<FileCache>,
        file: Offer<CachedFile>,
    ) -> LoadResult {
        match self.is_same(&file).await {
            Ok(true) => return Ok(Loaded::File(file)),
            Err(Failure::Busy) if !file.has_changed() => return Ok(Loaded::File(file)),
            Ok(false) | Err(_) => (),
        }
        cache.with(|cache| cache.remove(self.key));
        self.load(cache).await
    }

    /// Whether the file on disk is still the version of the entry.
    async fn is_same(&self, entry: &Entry) -> Result<bool, Failure> {
        let listed = list::split(&self.path);
        let path = listed.map_or(&self.path[..], |(directory, _)| directory);
        let Opened { metadata, .. } = disk::open(self.stages, self.host(), path).await?;
        if entry.id != metadata.into() || !entry.is_current() {
            return Ok(false);
        }
        if !self.host().config.precompressed || listed.is_some() {
            return Ok(true);
        }
        // Precompressed files may have been added or removed.
        let known = entry.variants.as_ref().map(|variants| variants.sources()).unwrap_or_default();
        Ok(sources::find(self.stages, self.host(), path, metadata, known).await == known)
    }

    /// Loads a file, or waits for the operation that already loads it.
    async fn load(&self, cache: &Partition<FileCache>) -> LoadResult {
        let Self { key, path, .. } = self;
        let (key, host) = (*key, self.id());
        while !cache.with(|cache| cache.loads.begin(key, host, path)) {
            let (sender, receiver) = oneshot::local();
            if !cache.with(|cache| cache.loads.wait_for(key, host, path, sender)) {
                // Another path with the same key, which is very rare: bypass the cache.
                return self.fetch().await.map(|entry| self.published(entry).1);
            }
            if let Some(result) = receiver.await {
                return result;
            }
            // The operation that loaded it was terminated. Try again.
        }
        let loading = LoadGuard { cache, key };
        let result = self.fetch().await.map(|entry| {
            let (value, loaded) = self.published(entry);
            if let Some(value) = value {
                cache.with(|cache| cache.insert(key, value));
            }
            loaded
        });
        loading.end(&result);
        result
    }

    /// Publishes a file. The returned reference stays valid even if the value is not cached.
    fn published(&self, entry: Option<Entry>) -> (Option<Value>, Loaded) {
        let Some(entry) = entry else { return (None, Loaded::Directory) };
        let file = CachedFile::new(self.id(), &self.path, entry, now());
        let published = self.stages.index.publish(self.key, file);
        let loaded = Loaded::File(published.offer());
        (Some(Value::file(published)), loaded)
    }

    /// Opens a file, and reads it if it is small. Returns `None` for a directory.
    async fn fetch(&self) -> Result<Option<Entry>, Failure> {
        let Self { stages, site, path, .. } = self;
        if let Some((directory, view)) = list::split(path) {
            return list::fetch(self, directory, view).await.map(Some);
        }
        for _ in 0..MAX_ATTEMPTS {
            let Opened { file, metadata } = disk::open(*stages, self.host(), path).await?;
            match metadata.kind {
                FileKind::Directory => return Ok(None),
                FileKind::Other => return Err(Failure::Forbidden),
                FileKind::File => (),
            }
            if metadata.length > MAX_WHOLE_BYTES {
                return Ok(Some(self.entry(metadata, Content::Blocks(file)).await));
            }
            let length = metadata.length as usize;
            let bytes = match length {
                0 => Bytes::new(),
                _ => read(*stages, site, &file, metadata.into(), 0, length)
                    .await
                    .map_err(Failure::from)?,
            };
            // Complete, and the same version before and after: no concurrent write.
            let after = file.metadata().map_err(Failure::from)?;
            if bytes.len() == length && FileId::from(after) == metadata.into() {
                return Ok(Some(self.entry(metadata, Content::Whole(bytes)).await));
            }
        }
        // A later request may find the file unchanged.
        Err(Failure::Busy)
    }

    async fn entry(&self, metadata: Metadata, content: Content) -> Entry {
        let (stages, host) = (self.stages, self.host());
        let sources = sources::find(stages, host, &self.path, metadata, Sources::default()).await;
        let rules = &self.host().rules;
        let (kind, fields) = (rules.kinds.of(&self.path), self.fields(&self.path, false));
        Entry::new(kind, metadata, content, sources, fields)
    }

    /// The fields that the host's rules add: see [`Rules::fields`](crate::site::rules::Rules::fields).
    pub(crate) fn fields(&self, path: &[u8], made: bool) -> Fields {
        let fields = self.host().rules.fields(path, made);
        fields.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
    }
}
