//! Path lookup, an operation of the file cache.
//!
//! A hit is answered immediately. A miss opens and reads the file once, for all concurrent requests. A hit
//! whose last check is too old is checked first, by one of the requests. Hits from another processor's
//! partition are kept for a moment: see [`near`].

use std::sync::Arc;

use phalanx::fs::{FileKind, Metadata};
use phalanx::net::Bytes;
use phalanx::stage::Partition;
use phalanx::sync::oneshot;
use phalanx::time::now;

use crate::files::aggregator;
use crate::files::cache::{FileCache, Value};
use crate::files::disk::{self, Opened};
use crate::files::entry::{Content, Entry, Fields, MAX_WHOLE_BYTES};
use crate::files::failure::Failure;
use crate::files::{list, near, sources};
use crate::site::{Host, HostId, HostIndex, Site};
use crate::stages::Stages;

/// Target of a path.
#[derive(Clone)]
pub(crate) enum Found {
    File(Arc<Entry>),
    Directory,
}

/// Result of a lookup.
pub(crate) type LookupResult = Result<Found, Failure>;

/// Attempts to read a file that changes meanwhile: slow disks and busy writers may collide a few times.
const ATTEMPTS: usize = 5;

/// Looks up a host's `path` in the partition that owns it. Also returns the memory of the path.
pub(crate) async fn look_up(
    stages: Stages,
    site: &Arc<Site>,
    host: HostIndex,
    path: Vec<u8>,
) -> (Vec<u8>, LookupResult) {
    let id = site[host].id;
    let key = site.key(id, &path);
    let limit = site.timeouts.revalidate;
    // A hit is cheaper without an operation.
    let hit =
        match stages.cache.try_with_local(key, |cache| cache.fresh(key, id, &path, now(), limit)) {
            Some(hit) => hit,
            None => near::find(site, key, id, &path, now()),
        };
    if let Some(entry) = hit
        && !entry.has_changed()
    {
        return (path, Ok(Found::File(entry)));
    }
    Box::pin(load_or_revalidate(Lookup { stages, site: site.clone(), host, key, path })).await
}

/// Looks up a path that has no fresh entry here.
async fn load_or_revalidate(lookup: Lookup) -> (Vec<u8>, LookupResult) {
    let (stages, key, id, site) = (lookup.stages, lookup.key, lookup.id(), lookup.site.clone());
    let call = stages.cache.call(key, move |cache| async move {
        let Lookup { site, path, .. } = &lookup;
        let limit = site.timeouts.revalidate;
        let mut until = None;
        let result = match cache.with(|cache| cache.entry(key, lookup.id(), path, now(), limit)) {
            Some(hit) if !hit.stale && !hit.entry.has_changed() => {
                until = Some(hit.until);
                Ok(Found::File(hit.entry))
            }
            // Boxed, so that a hit does not reserve the memory of a miss.
            Some(hit) => Box::pin(lookup.revalidate(&cache, hit.entry)).await,
            None => Box::pin(lookup.load(&cache)).await,
        };
        (lookup.path, result, until)
    });
    let (path, result, until) = call.await.unwrap_or((Vec::new(), Err(Failure::Broken), None));
    if let (Ok(Found::File(entry)), Some(until)) = (&result, until)
        && stages.cache.try_with_local(key, |_| ()).is_none()
    {
        near::keep(&site, key, id, &path, entry, until);
    }
    (path, result)
}

/// A path to look up.
pub(crate) struct Lookup {
    pub(crate) stages: Stages,
    pub(crate) site: Arc<Site>,
    host: HostIndex,
    pub(crate) key: u64,
    pub(crate) path: Vec<u8>,
}

impl Lookup {
    #[inline]
    pub(crate) fn new(stages: Stages, site: &Arc<Site>, host: HostIndex, path: Vec<u8>) -> Self {
        let key = site.key(site[host].id, &path);
        Self { stages, site: site.clone(), host, key, path }
    }

    pub(crate) fn host(&self) -> &Arc<Host> {
        &self.site[self.host]
    }

    fn id(&self) -> HostId {
        self.host().id
    }

    /// Checks whether the file has changed, and reloads it if so.
    async fn revalidate(&self, cache: &Partition<FileCache>, entry: Arc<Entry>) -> LookupResult {
        let begun = now();
        if self.is_same(&entry).await {
            cache.with(|cache| cache.verify(self.key, &entry, begun));
            return Ok(Found::File(entry));
        }
        cache.with(|cache| cache.remove(self.key));
        self.load(cache).await
    }

    /// Whether the file on disk is still the version of the entry.
    async fn is_same(&self, entry: &Entry) -> bool {
        let listed = list::split(&self.path);
        let path = listed.map_or(&self.path[..], |(directory, _)| directory);
        let Ok(Opened { metadata, .. }) = disk::open(self.stages, self.host(), path).await else {
            return false;
        };
        if entry.id != metadata.into() || !entry.is_current() {
            return false;
        }
        if !self.host().config.precompressed || listed.is_some() {
            return true;
        }
        // Precompressed files may have been added or removed.
        let known = entry.variants.as_ref().map(|variants| variants.sources()).unwrap_or_default();
        sources::find(self.stages, self.host(), path, metadata).await == known
    }

    /// Loads a file, or waits for the operation that already loads it.
    async fn load(&self, cache: &Partition<FileCache>) -> LookupResult {
        let Self { key, path, .. } = self;
        let (key, host) = (*key, self.id());
        while !cache.with(|cache| cache.begin_loading(key, host, path)) {
            let (sender, loaded) = oneshot::local();
            if !cache.with(|cache| cache.wait_for(key, host, path, sender)) {
                // Another path with the same key, which is very rare: bypass the cache.
                return self.fetch().await;
            }
            if let Some(result) = loaded.await {
                return result;
            }
            // The operation that loaded it was terminated. Try again.
        }
        let loading = Loading { cache, key };
        let result = self.fetch().await;
        if let Ok(Found::File(entry)) = &result {
            let (path, entry) = (path[..].into(), entry.clone());
            let value = Value::Entry { host, path, entry, checked: now(), verified: now() };
            cache.with(|cache| cache.insert(key, value));
        }
        loading.end(&result);
        result
    }

    /// Opens a file, and reads it if it is small.
    async fn fetch(&self) -> LookupResult {
        let Self { stages, site, path, .. } = self;
        if let Some((directory, view)) = list::split(path) {
            return list::fetch(self, directory, view).await;
        }
        for _ in 0..ATTEMPTS {
            let opened = disk::open(*stages, self.host(), path).await;
            let Opened { file, metadata } = opened.map_err(Failure::from)?;
            match metadata.kind {
                FileKind::Directory => return Ok(Found::Directory),
                FileKind::Other => return Err(Failure::Forbidden),
                FileKind::File => (),
            }
            if metadata.length > MAX_WHOLE_BYTES {
                return Ok(self.found(metadata, Content::Blocks(file)).await);
            }
            let length = metadata.length as usize;
            let bytes = match length {
                0 => Bytes::new(),
                _ => aggregator::read(*stages, site, &file, metadata.into(), 0, length)
                    .await
                    .map_err(Failure::from)?,
            };
            // Complete, with the same metadata before and after: no concurrent write.
            if bytes.len() == length && file.metadata().map_err(Failure::from)? == metadata {
                return Ok(self.found(metadata, Content::Whole(bytes)).await);
            }
        }
        // The writer may stop later.
        Err(Failure::Busy)
    }

    async fn found(&self, metadata: Metadata, content: Content) -> Found {
        let sources = sources::find(self.stages, self.host(), &self.path, metadata).await;
        let rules = &self.host().rules;
        let (kind, fields) = (rules.kinds.of(&self.path), self.fields(&self.path, false));
        Found::File(Arc::new(Entry::new(kind, metadata, content, sources, fields)))
    }

    /// The fields that the host's rules add: see [`Rules::fields`](crate::site::rules::Rules::fields).
    pub(crate) fn fields(&self, path: &[u8], made: bool) -> Fields {
        let fields = self.host().rules.fields(path, made);
        fields.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
    }
}

/// Ends a load when it is dropped, also if the operation is terminated. The waiting operations then retry.
pub(crate) struct Loading<'a> {
    pub(crate) cache: &'a Partition<FileCache>,
    pub(crate) key: u64,
}

impl Loading<'_> {
    pub(crate) fn end(self, result: &LookupResult) {
        for sender in self.cache.with(|cache| cache.end_loading(self.key)) {
            sender.send(result.clone());
        }
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        drop(self.cache.with(|cache| cache.end_loading(self.key)));
    }
}
