//! Directory listings as HTML or JSON.
//!
//! | file | idea |
//! |---|---|
//! | `order` | the sort order, from the query |
//! | `page` | the HTML page: no scripts, no external resources, dark and light, wide and narrow |
//! | `json` | the listing as JSON |
//! | `words` | names, sizes and times as text |
//!
//! This code is pure and runs on a thread that may block: rendering thousands of names takes longer than a
//! request should.

mod json;
mod order;
mod page;
mod words;

use phalanx::fs::{DirEntries, DirEntry, DirEntryKind};
use phalanx_http::ContentType;

pub(crate) use order::Order;

/// Largest number of names in a listing; the page mentions a truncation.
pub(crate) const MAX_ENTRIES: usize = 10_000;

/// Format of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Page,
    Json,
}

/// Format and order of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) form: Form,
    pub(crate) order: Order,
}

impl Form {
    pub(crate) fn content_type(self) -> ContentType {
        match self {
            Self::Page => ContentType::HTML,
            Self::Json => ContentType { essence: "application/json", utf8: false },
        }
    }
}

impl View {
    const FORMS: [Form; 2] = [Form::Page, Form::Json];

    /// Encodes the view as a byte in a cache key.
    pub(crate) fn to_byte(self) -> u8 {
        let form = Self::FORMS.iter().position(|form| *form == self.form).unwrap_or(0) as u8;
        b'A' + form * 16 + self.order.to_byte()
    }

    /// The inverse of [`to_byte`](Self::to_byte).
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        let byte = byte.checked_sub(b'A')?;
        let form = *Self::FORMS.get(usize::from(byte / 16))?;
        Some(Self { form, order: Order::from_byte(byte % 16)? })
    }
}

/// Whether a name is listed. Hidden files are neither listed nor served.
pub(crate) fn is_shown(name: &[u8]) -> bool {
    !name.starts_with(b".") && !name.contains(&b'\\') && !name.iter().any(u8::is_ascii_control)
}

/// Renders the listing of the directory at `path`, which is relative to the root, without leading or trailing
/// slash. `links` is whether symbolic links are listed.
pub(crate) fn render(path: &[u8], names: DirEntries, view: View, links: bool) -> Vec<u8> {
    let DirEntries { entries: mut names, truncated: cut } = names;
    names.retain(|named| match named.kind {
        DirEntryKind::File | DirEntryKind::Directory => true,
        DirEntryKind::Link => links,
        DirEntryKind::Other => false,
    });
    view.order.sort(&mut names);
    match view.form {
        Form::Page => page::write(path, &names, cut, view.order),
        Form::Json => json::write(path, &names, cut),
    }
}

/// Whether the entry is a directory.
fn is_directory(named: &DirEntry) -> bool {
    named.kind == DirEntryKind::Directory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_have_distinct_bytes() {
        let all: Vec<u8> = (0..=255).filter(|byte| View::from_byte(*byte).is_some()).collect();
        assert_eq!(all.len(), 2 * 6);
        for byte in all {
            assert_eq!(View::from_byte(byte).unwrap().to_byte(), byte);
        }
    }

    #[test]
    fn hidden_files_are_not_listed() {
        for name in [&b".git"[..], b"a\\b", b"a\nb", b"a\x7fb"] {
            assert!(!is_shown(name), "{name:?}");
        }
        assert!(is_shown(b"a b") && is_shown(b"\xff") && is_shown("ü".as_bytes()));
    }
}
