//! Directory listings in the file cache. A thread that may block reads the directory; the listing is cached
//! under a name that no file can have.

use phalanx::fs::FileKind;
use phalanx_http::Coding;

use crate::config::Symlinks;
use crate::files::disk::{self, Opened};
use crate::files::encodings::encode;
use crate::files::encodings::variants::{Source, Sources};
use crate::files::entry::Entry;
use crate::files::failure::Failure;
use crate::files::lookup::Lookup;
use crate::listing::{MAX_ENTRIES, View, is_shown, render};

/// Converts a directory's name to the name of one of its listings.
pub(crate) fn name(directory: &mut Vec<u8>, view: View) {
    // No file name contains a zero byte.
    directory.extend_from_slice(&[0, view.to_byte()]);
}

/// The inverse of [`name`]; `None` for the name of a file.
pub(crate) fn split(name: &[u8]) -> Option<(&[u8], View)> {
    let [directory @ .., 0, view] = name else { return None };
    Some((directory, View::from_byte(*view)?))
}

/// Reads the directory and renders its listing.
pub(crate) async fn fetch(lookup: &Lookup, directory: &[u8], view: View) -> Result<Entry, Failure> {
    let Opened { file, mut metadata } = disk::open(lookup.stages, lookup.host(), directory).await?;
    if metadata.kind != FileKind::Directory {
        return Err(Failure::Missing);
    }
    let (site, path) = (lookup.site.clone(), directory.to_vec());
    let config = &lookup.host().config;
    let links = config.symlinks != Symlinks::Deny;
    let memory = site.memory.clone();
    let call = lookup.site.blocking().ok_or(Failure::Busy)?.slow.call(move |()| {
        let names = file.read_dir(MAX_ENTRIES, is_shown)?;
        let newest = names.entries.iter().map(|named| named.modified_ns).max();
        let bytes = render(&path, names, view, links);
        let tag = site.tag(&bytes);
        let room = memory.content.try_reserve(bytes.capacity());
        std::io::Result::Ok((room.map(|room| room.hold(bytes)), tag, newest))
    });
    let listed = call.await.map_err(|_| Failure::Busy)?;
    let (bytes, tag, newest) = listed.map_err(Failure::from)?;
    let Some(bytes) = bytes else {
        lookup.site.memory.listings_rejected.add(1);
        return Err(Failure::Busy);
    };
    let length = bytes.len() as u64;
    let makes = config.compress && (encode::MIN_BYTES..=encode::MAX_BYTES).contains(&length);
    let source = if makes { Source::Compressed } else { Source::None };
    let sources: Sources = [source; Coding::ENCODED.len()];
    let id = metadata.into();
    // The listing shows modification times, so it is as new as the newest file.
    metadata.modified_ns = newest.map_or(metadata.modified_ns, |at| at.max(metadata.modified_ns));
    let (kind, fields) = (view.form.content_type(), lookup.fields(directory, true));
    Ok(Entry::generated(kind, id, metadata, (bytes, tag), sources, fields))
}
