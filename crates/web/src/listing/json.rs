//! A directory listing as JSON.

use phalanx::fs::{DirEntry, DirEntryKind};
use serde::Serialize;

use crate::listing::words::{segment, time};

#[derive(Serialize)]
struct Listing<'a> {
    /// Path of the directory from the root, with leading and trailing slashes.
    path: String,
    /// Whether the listing is truncated.
    cut: bool,
    entries: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    /// The name, with invalid UTF-8 replaced; `href` is exact.
    name: std::borrow::Cow<'a, str>,
    /// Link relative to the directory.
    href: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    modified: String,
}

pub(super) fn write(path: &[u8], names: &[DirEntry], cut: bool) -> Vec<u8> {
    let path = match path {
        [] => "/".to_owned(),
        path => format!("/{}/", String::from_utf8_lossy(path)),
    };
    let entries = names.iter().map(|named| {
        let (kind, slash, size) = match named.kind {
            DirEntryKind::Directory => ("directory", "/", None),
            DirEntryKind::File => ("file", "", Some(named.length)),
            DirEntryKind::Link | DirEntryKind::Other => ("link", "", None),
        };
        Entry {
            name: String::from_utf8_lossy(&named.name),
            href: format!("./{}{slash}", segment(&named.name)),
            kind,
            size,
            modified: time(named.modified_ns).1,
        }
    });
    let listing = Listing { path, cut, entries: entries.collect() };
    // Serialization cannot fail: all keys are strings.
    let mut out = serde_json::to_vec(&listing).unwrap_or_default();
    out.push(b'\n');
    out
}
