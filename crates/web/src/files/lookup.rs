//! Looking a path up: an operation of the file cache.
//!
//! A hit is answered at once. A miss opens and reads the file, once for all who ask meanwhile. A hit
//! that has not been checked for a while is checked first, by one of those who ask. Hits that another
//! processor has given are kept for a moment: see [`near`].

use std::sync::Arc;

use phalanx::fs::{FileKind, Metadata};
use phalanx::net::Bytes;
use phalanx::stage::Partition;
use phalanx::sync::event;
use phalanx::time::now;

use crate::files::aggregator;
use crate::files::cache::{FileCache, Value};
use crate::files::disk::{self, Opened};
use crate::files::entry::{Content, Entry, Fields, WHOLE};
use crate::files::failure::Failure;
use crate::files::{list, near, sources};
use crate::site::{Host, HostId, HostIndex, Site};
use crate::stages::Stages;

/// What a path names.
#[derive(Clone)]
pub(crate) enum Found {
    File(Arc<Entry>),
    Directory,
}

/// What looking up came to.
pub(crate) type Looked = Result<Found, Failure>;

/// A file that changes while it is read is read so many times: slow disks and busy writers may meet twice or thrice.
const ATTEMPTS: usize = 5;

/// Looks `path` of a host up, on the processor that owns it. Gives the path's memory back.
pub(crate) async fn look_up(
    stages: Stages,
    site: &Arc<Site>,
    host: HostIndex,
    path: Vec<u8>,
) -> (Vec<u8>, Looked) {
    let id = site[host].id;
    let key = site.key(id, &path);
    let limit = site.timeouts.revalidate;
    // A hit costs less than an operation for it.
    let hit = match stages.cache.at_once(key, |cache| cache.fresh(key, id, &path, now(), limit)) {
        Some(hit) => hit,
        None => near::find(site, key, id, &path, now()),
    };
    if let Some(entry) = hit
        && !entry.has_changed()
    {
        return (path, Ok(Found::File(entry)));
    }
    Box::pin(load_or_revalidate(Asked { stages, site: site.clone(), host, key, path })).await
}

/// Looks up what is not known here and now.
async fn load_or_revalidate(asked: Asked) -> (Vec<u8>, Looked) {
    let (stages, key, id, site) = (asked.stages, asked.key, asked.id(), asked.site.clone());
    let call = stages.cache.call(key, move |cache| async move {
        let Asked { site, path, .. } = &asked;
        let limit = site.timeouts.revalidate;
        let mut until = None;
        let looked = match cache.with(|cache| cache.entry(key, asked.id(), path, now(), limit)) {
            Some(hit) if !hit.stale && !hit.entry.has_changed() => {
                until = Some(hit.until);
                Ok(Found::File(hit.entry))
            }
            // Boxed: a hit should not pay for the memory of a miss.
            Some(hit) => Box::pin(asked.revalidate(&cache, hit.entry)).await,
            None => Box::pin(asked.load(&cache)).await,
        };
        (asked.path, looked, until)
    });
    let (path, looked, until) = call.await.unwrap_or((Vec::new(), Err(Failure::Broken), None));
    if let (Ok(Found::File(entry)), Some(until)) = (&looked, until)
        && stages.cache.at_once(key, |_| ()).is_none()
    {
        near::keep(&site, key, id, &path, entry, until);
    }
    (path, looked)
}

/// What is looked up.
pub(crate) struct Asked {
    pub(crate) stages: Stages,
    pub(crate) site: Arc<Site>,
    host: HostIndex,
    pub(crate) key: u64,
    pub(crate) path: Vec<u8>,
}

impl Asked {
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

    /// Looks whether the file is still the one in the cache.
    async fn revalidate(&self, cache: &Partition<FileCache>, entry: Arc<Entry>) -> Looked {
        let begun = now();
        if self.is_same(&entry).await {
            cache.with(|cache| cache.verify(self.key, &entry, begun));
            return Ok(Found::File(entry));
        }
        cache.with(|cache| cache.remove(self.key));
        self.load(cache).await
    }

    /// Whether what is on the disk is what the entry was made of.
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
        // What lies beside it may have come or gone.
        let known = entry.variants.as_ref().map(|variants| variants.sources()).unwrap_or_default();
        sources::find(self.stages, self.host(), path, metadata).await == known
    }

    /// Loads a file, or waits for whoever loads it already.
    async fn load(&self, cache: &Partition<FileCache>) -> Looked {
        let Self { key, path, .. } = self;
        let (key, host) = (*key, self.id());
        while !cache.with(|cache| cache.begin_loading(key, host, path)) {
            let (trigger, loaded) = event();
            if !cache.with(|cache| cache.wait_for(key, host, path, trigger)) {
                // Another path with the same key: as rare as it gets, so without the cache.
                return self.fetch().await;
            }
            if let Some(looked) = loaded.await {
                return looked;
            }
            // Whoever loaded it was ended. Now it is our turn, or another's.
        }
        let loading = Loading { cache, key };
        let looked = self.fetch().await;
        if let Ok(Found::File(entry)) = &looked {
            let (path, entry) = (path[..].into(), entry.clone());
            let value = Value::Entry { host, path, entry, checked: now(), verified: now() };
            cache.with(|cache| cache.insert(key, value));
        }
        loading.end(&looked);
        looked
    }

    /// Opens a file, and reads it if it is small.
    async fn fetch(&self) -> Looked {
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
            if metadata.length > WHOLE {
                return Ok(self.found(metadata, Content::Blocks(file)).await);
            }
            let length = metadata.length as usize;
            let bytes = match length {
                0 => Bytes::new(),
                _ => aggregator::read(*stages, site, &file, metadata.into(), 0, length)
                    .await
                    .map_err(Failure::from)?,
            };
            // Read whole, and the same before and after: not torn by a writer.
            if bytes.len() == length && file.metadata().map_err(Failure::from)? == metadata {
                return Ok(self.found(metadata, Content::Whole(bytes)).await);
            }
        }
        // It may be left alone later.
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

/// Ends the loading also when the operation that loads is dropped: the others then get nothing,
/// and try for themselves.
pub(crate) struct Loading<'a> {
    pub(crate) cache: &'a Partition<FileCache>,
    pub(crate) key: u64,
}

impl Loading<'_> {
    pub(crate) fn end(self, looked: &Looked) {
        for trigger in self.cache.with(|cache| cache.end_loading(self.key)) {
            trigger.fire(looked.clone());
        }
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        drop(self.cache.with(|cache| cache.end_loading(self.key)));
    }
}
