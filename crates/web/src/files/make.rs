//! Making a variant of a file: an operation of the file cache, on the partition that has the file.

use std::sync::Arc;

use phalanx::fs::{File, FileKind};
use phalanx::{Bytes, Partition, event};
use phalanx_http::Coding;

use crate::files::aggregator;
use crate::files::cache::FileCache;
use crate::files::disk::{self, Opened};
use crate::files::encode::encode;
use crate::files::entry::{Content, Entry, FileId, WHOLE};
use crate::files::failure::Failure;
use crate::files::lookup::{Asked, Found, Loading};
use crate::files::sources::neighbour;
use crate::files::variants::{Source, Variants};
use crate::site::{HostIndex, Site};
use crate::stages::Stages;

/// A file is read so many bytes at a time to be compressed.
const STEP: u64 = 1024 * 1024;

/// The variant of `entry`, the file at `path`, once it is here; none if there is nothing to send.
pub(crate) async fn obtain(
    stages: Stages,
    site: &Arc<Site>,
    host: HostIndex,
    path: &[u8],
    entry: &Arc<Entry>,
    coding: Coding,
) -> Option<Arc<Entry>> {
    let asked = Asked::new(stages, site, host, path.to_vec());
    let entry = entry.clone();
    let call = stages.cache.call(asked.key, move |cache| async move {
        make(&asked, &cache, &entry, coding, true).await
    });
    call.await.ok().flatten()
}

/// Has the variant made for those who come later.
pub(crate) fn begin(
    stages: Stages,
    site: &Arc<Site>,
    host: HostIndex,
    path: &[u8],
    entry: &Arc<Entry>,
    coding: Coding,
) {
    let asked = Asked::new(stages, site, host, path.to_vec());
    let begun = Begun { entry: entry.clone(), coding };
    // If it is refused, what it has begun is given up.
    let _ = stages.cache.dispatch(asked.key, move |cache| async move {
        make(&asked, &cache, &begun.entry, coding, false).await;
    });
}

/// Gives up what has been begun, however it ends: where it was made, that means nothing.
struct Begun {
    entry: Arc<Entry>,
    coding: Coding,
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(variants) = &self.entry.variants {
            variants.give_up(self.coding);
        }
    }
}

/// Makes the variant, or waits for whoever does. `waited_for` says that somebody needs it now, so
/// that it is made even if it cannot be kept.
async fn make(
    asked: &Asked,
    cache: &Partition<FileCache>,
    entry: &Arc<Entry>,
    coding: Coding,
    waited_for: bool,
) -> Option<Arc<Entry>> {
    let variants: &Variants = entry.variants.as_deref()?;
    let host = asked.host().id;
    // No file's name has a zero byte.
    let path = [&asked.path, &b"\0"[..], coding.name().as_bytes()].concat();
    let key = asked.site.key(host, &path);
    loop {
        if let Some(variant) = variants.ready(coding) {
            return Some(variant.clone());
        }
        variants.wanted(coding)?;
        if cache.with(|cache| cache.begin_loading(key, host, &path)) {
            break;
        }
        let (trigger, loaded) = event();
        if !cache.with(|cache| cache.wait_for(key, host, &path, trigger)) {
            return None;
        }
        match loaded.await {
            Some(Ok(Found::File(variant))) => return Some(variant),
            Some(_) => return None,
            // Whoever made it was ended.
            None => (),
        }
    }
    let loading = Loading { cache, key };
    let kept = cache.with(|cache| cache.holds(asked.key, entry));
    let made = match variants.wanted(coding)? {
        Source::Neighbour(id) => read(asked, entry, coding, id).await,
        Source::Made if kept || waited_for => compress(asked, entry, coding).await,
        Source::Made | Source::None => return None,
    };
    if let Ok(variant) = &made {
        cache.with(|cache| {
            let bytes = variant.as_ref().map_or(0, |variant| variant.bytes());
            if cache.holds(asked.key, entry) && cache.has_room(bytes) {
                variants.set(coding, variant.clone());
                cache.weigh(asked.key);
            } else if cache.holds(asked.key, entry) && !waited_for {
                // Too large to be kept is as good as nothing: it is not made again and again.
                variants.set(coding, None);
            }
        });
    }
    let made = made.ok().flatten();
    loading.end(&made.clone().map(Found::File).ok_or(Failure::Missing));
    made
}

/// Reads the neighbour, if it is as it was when it was found.
async fn read(
    asked: &Asked,
    entry: &Entry,
    coding: Coding,
    id: FileId,
) -> Result<Option<Arc<Entry>>, Failure> {
    let path = neighbour(&asked.path, coding);
    let Opened { file, metadata } = disk::open(asked.stages, asked.host(), &path).await?;
    if metadata.kind != FileKind::File || FileId::from(metadata) != id {
        // Found out when the file is looked at again.
        return Err(Failure::Missing);
    }
    let content = if metadata.length > WHOLE {
        Content::Blocks(file)
    } else {
        let length = metadata.length as usize;
        let bytes = match length {
            0 => Bytes::new(),
            _ => aggregator::read(asked.stages, &asked.site, &file, id, 0, length).await?,
        };
        if bytes.len() < length || file.metadata()? != metadata {
            return Err(Failure::Broken);
        }
        Content::Whole(bytes)
    };
    Ok(Some(Arc::new(entry.beside(coding, metadata, content))))
}

/// Compresses the file; none if that is not worth it.
async fn compress(
    asked: &Asked,
    entry: &Entry,
    coding: Coding,
) -> Result<Option<Arc<Entry>>, Failure> {
    let bytes = match &entry.content {
        Content::Whole(bytes) => bytes.clone(),
        Content::Blocks(file) => read_all(asked, entry, file).await?,
    };
    let encoded = asked.stages.slow.call(move |()| encode(&bytes, coding)).await;
    let encoded = encoded.map_err(|_| Failure::Busy)?;
    Ok(encoded.map(|encoded| Arc::new(entry.encoded(coding, encoded))))
}

/// All of a large file, in the state that the entry is of.
async fn read_all(asked: &Asked, entry: &Entry, file: &File) -> Result<Bytes, Failure> {
    let before = file.metadata()?;
    let mut bytes = Vec::with_capacity(entry.length as usize);
    while (bytes.len() as u64) < entry.length {
        let offset = bytes.len() as u64;
        let step = (entry.length - offset).min(STEP) as usize;
        let (stages, site) = (asked.stages, &asked.site);
        let more = aggregator::read(stages, site, file, entry.id, offset, step).await?;
        if more.is_empty() {
            return Err(Failure::Broken);
        }
        bytes.extend_from_slice(&more);
    }
    // The same before and after: not torn by a writer.
    if FileId::from(before) != entry.id || file.metadata()? != before {
        return Err(Failure::Missing);
    }
    Ok(bytes.into())
}
