//! A cached file: its validators, header lines and content.

mod validators;

use std::sync::Arc;

use phalanx::fs::{File, Metadata};
use phalanx::net::Bytes;
use phalanx_http::{Coding, Entity, Validators};

use crate::clock::unix_seconds;
use crate::files::encodings::variants::{Sources, Variants};
use crate::files::entry::validators::{file_tag, is_fresh, last_modified, seconds, with_coding};
use crate::site::Kind;

/// Largest file cached as a whole, in bytes; larger files are cached in blocks.
pub(crate) const MAX_WHOLE_BYTES: u64 = 64 * 1024;

/// Age at which generated content expires, in seconds.
const GENERATED_TTL: u64 = 10;

/// Age in seconds from which a file is not expected to change while it is sent. A log or a download in progress changes
/// more often.
const MIN_SETTLED_AGE: u64 = 10;

/// Identity of one version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
    modified_ns: i128,
    length: u64,
}

impl From<Metadata> for FileId {
    fn from(metadata: Metadata) -> Self {
        let Metadata { device, inode, modified_ns, length, .. } = metadata;
        Self { device, inode, modified_ns, length }
    }
}

/// Names and values of the fields that a host's rules add.
pub(crate) type Fields = std::sync::Arc<[(Box<str>, Box<str>)]>;

/// A file in the cache.
pub(crate) struct Entry {
    pub(crate) id: FileId,
    pub(crate) length: u64,
    pub(crate) entity: Entity,
    pub(crate) content: Content,
    /// Other encodings of the file, if there are any.
    pub(crate) variants: Option<Box<Variants>>,
    content_type: Kind,
    /// Value of the `Vary` field; empty for none.
    vary: &'static str,
    /// Fields from the host's rules.
    fields: Fields,
    etag: String,
    modified: u64,
    /// The time for `Last-Modified`.
    last_modified: u64,
    /// Expiry in seconds since 1970; `u64::MAX` for none.
    expires_at: u64,
}

/// Content of a file.
#[derive(Clone)]
pub(crate) enum Content {
    /// All bytes, in memory.
    Whole(Bytes),
    /// An open file, read in blocks.
    Blocks(File),
}

impl Content {
    /// The bytes, if they are in memory.
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Whole(bytes) => Some(bytes),
            Self::Blocks(_) => None,
        }
    }
}

impl Entry {
    /// An entry for an unencoded file, with the sources of its other encodings.
    pub(crate) fn new(
        content_type: Kind,
        metadata: Metadata,
        content: Content,
        sources: Sources,
        fields: Fields,
    ) -> Self {
        let etag = file_tag(metadata, content.bytes());
        let (length, modified) = (metadata.length, seconds(metadata));
        let variants = Variants::new(sources);
        let vary = if variants.is_some() { "Accept-Encoding" } else { "" };
        let parts = Parts {
            content_type,
            vary,
            etag,
            modified,
            last_modified: last_modified(modified),
            length,
            fields,
        };
        Self { variants, ..parts.build(Coding::Identity, metadata.into(), content) }
    }

    /// An entry for generated content and its hash, such as a listing of `id`. The content depends on more than the
    /// path of the request, and its age is that of `metadata`.
    pub(crate) fn generated(
        content_type: impl Into<Kind>,
        id: FileId,
        metadata: Metadata,
        (bytes, tag): (Bytes, u64),
        sources: Sources,
        fields: Fields,
    ) -> Self {
        let content_type = content_type.into();
        let variants = Variants::new(sources);
        let vary = if variants.is_some() { "Accept, Accept-Encoding" } else { "Accept" };
        let (etag, modified) = (format!("\"{tag:x}\""), seconds(metadata));
        let (last_modified, length) = (last_modified(modified), bytes.len() as u64);
        let parts = Parts { content_type, vary, etag, modified, last_modified, length, fields };
        let content = Content::Whole(bytes);
        let built = parts.build(Coding::Identity, id, content);
        Self { variants, expires_at: unix_seconds() + GENERATED_TTL, ..built }
    }

    /// An entry for another encoding, from a precompressed file with this `metadata`.
    pub(crate) fn precompressed(
        &self,
        coding: Coding,
        metadata: Metadata,
        content: Content,
    ) -> Self {
        let etag = with_coding(&file_tag(metadata, content.bytes()), metadata.length, coding);
        let (content_type, vary) = (self.content_type.clone(), self.vary);
        let (modified, length) = (seconds(metadata), metadata.length);
        let (last_modified, fields) = (last_modified(modified), self.fields.clone());
        let parts = Parts { content_type, vary, etag, modified, last_modified, length, fields };
        parts.build(coding, metadata.into(), content)
    }

    /// An entry for another encoding, compressed by the server.
    pub(crate) fn encoded(&self, coding: Coding, bytes: Bytes) -> Self {
        let length = bytes.len() as u64;
        let etag = with_coding(&self.etag, length, coding);
        let Self { vary, modified, last_modified, .. } = *self;
        let (content_type, fields) = (self.content_type.clone(), self.fields.clone());
        let parts = Parts { content_type, vary, etag, modified, last_modified, length, fields };
        parts.build(coding, self.id, Content::Whole(bytes))
    }

    pub(crate) fn validators(&self) -> Validators<'_> {
        Validators { etag: &self.etag, modified: self.last_modified }
    }

    /// Whether the entry's header lines are still valid for an unchanged file.
    pub(crate) fn is_current(&self) -> bool {
        (!self.etag.starts_with("W/") || is_fresh(self.modified))
            && (self.expires_at == u64::MAX || unix_seconds() <= self.expires_at)
            && self.available_variants().all(|variant| variant.is_current())
    }

    /// Whether the file has not changed for [`MIN_SETTLED_AGE`], so that it probably does not change while it is sent.
    pub(crate) fn is_settled(&self) -> bool {
        self.modified.saturating_add(MIN_SETTLED_AGE) <= unix_seconds()
    }

    fn available_variants(&self) -> impl Iterator<Item = &Arc<Self>> {
        self.variants.iter().flat_map(|variants| variants.available())
    }

    /// Whether the file or one of its precompressed files was written to since it was opened, so that the content to be
    /// read would not match its tag. Whether the path now names another file is checked elsewhere.
    #[inline]
    pub(crate) fn has_changed(&self) -> bool {
        self.is_overwritten() || self.variants.is_some() && self.is_variant_overwritten()
    }

    /// Whether the entry keeps a file open that was written to after it was loaded.
    #[inline]
    fn is_overwritten(&self) -> bool {
        match &self.content {
            Content::Whole(_) => false,
            Content::Blocks(file) => self.is_changed(file),
        }
    }

    fn is_changed(&self, file: &File) -> bool {
        file.metadata().map_or(true, |metadata| FileId::from(metadata) != self.id)
    }

    fn is_variant_overwritten(&self) -> bool {
        self.available_variants().any(|variant| variant.is_overwritten())
    }

    /// The number of files that the entry keeps open.
    pub(crate) fn open_files(&self) -> usize {
        let own = usize::from(matches!(self.content, Content::Blocks(_)));
        own + self.available_variants().map(|variant| variant.open_files()).sum::<usize>()
    }

    /// Approximate memory of the entry, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let content = self.content.bytes().map_or(0, <[u8]>::len);
        let variants = self.variants.as_ref().map_or(0, |_| size_of::<Variants>());
        let available: usize = self.available_variants().map(|variant| variant.bytes()).sum();
        content + self.entity.bytes() + self.etag.len() + size_of::<Self>() + variants + available
    }
}

/// Inputs of an entry's header lines.
struct Parts {
    content_type: Kind,
    vary: &'static str,
    etag: String,
    modified: u64,
    last_modified: u64,
    length: u64,
    fields: Fields,
}

impl Parts {
    fn build(self, coding: Coding, id: FileId, content: Content) -> Entry {
        let Self { content_type, vary, etag, modified, last_modified, length, fields } = self;
        let lines = fields.iter().map(|(name, value)| (&name[..], &value[..]));
        let mut lines: Vec<_> = lines.collect();
        if !vary.is_empty() {
            lines.push(("Vary", vary));
        }
        let validators = Validators { etag: &etag, modified: last_modified };
        let entity = Entity::encoded(&content_type, coding, &validators, length, &lines);
        let (variants, expires_at) = (None, u64::MAX);
        Entry {
            id,
            length,
            entity,
            content,
            variants,
            content_type,
            vary,
            fields,
            etag,
            modified,
            last_modified,
            expires_at,
        }
    }
}

#[cfg(test)]
impl FileId {
    /// An identity for tests.
    pub(crate) fn of_length(length: u64) -> Self {
        Self { device: 0, inode: 0, modified_ns: 0, length }
    }
}

#[cfg(test)]
impl Entry {
    /// A file with this content, for tests: needs no clock, which only a processor has.
    pub(crate) fn of(content: &'static str) -> Self {
        let content_type = phalanx_http::ContentType::UNKNOWN.into();
        let (etag, length) = ("\"0-4\"".to_owned(), content.len() as u64);
        let (vary, modified, last_modified, fields) = ("", 0, 0, Fields::default());
        let parts = Parts { content_type, vary, etag, modified, last_modified, length, fields };
        let content = Content::Whole(Bytes::from_static(content.as_bytes()));
        parts.build(Coding::Identity, FileId::of_length(length), content)
    }
}
