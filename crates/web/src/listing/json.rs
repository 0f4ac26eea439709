//! A listing for programs: the names with what is known of each.

use phalanx::fs::{Named, NamedKind};
use serde::Serialize;

use crate::listing::words::{segment, time};

#[derive(Serialize)]
struct Listing<'a> {
    /// The directory, from the root, with a slash at either end.
    path: String,
    /// Whether there are names that are not here.
    cut: bool,
    entries: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    /// What is not UTF-8 is replaced: `href` leads there nevertheless.
    name: std::borrow::Cow<'a, str>,
    /// Relative to the directory.
    href: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    modified: String,
}

pub(super) fn write(path: &[u8], names: &[Named], cut: bool) -> Vec<u8> {
    let path = match path {
        [] => "/".to_owned(),
        path => format!("/{}/", String::from_utf8_lossy(path)),
    };
    let entries = names.iter().map(|named| {
        let (kind, slash, size) = match named.kind {
            NamedKind::Directory => ("directory", "/", None),
            NamedKind::File => ("file", "", Some(named.length)),
            NamedKind::Link | NamedKind::Other => ("link", "", None),
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
    // Nothing in it can fail: no maps with keys that are no text, no numbers that are none.
    let mut out = serde_json::to_vec(&listing).unwrap_or_default();
    out.push(b'\n');
    out
}
