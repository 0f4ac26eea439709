//! A file as it is served: its validators, its lines for a response's head, its content.

use std::sync::Arc;

use phalanx::fs::{File, Metadata};
use phalanx::net::Bytes;
use phalanx_http::{Coding, Entity, Validators};

use crate::connection::clock::unix_seconds;
use crate::files::variants::{Sources, Variants};
use crate::site::Kind;

/// Files up to this size are kept whole, beside their lines; larger ones by blocks.
pub(crate) const WHOLE: u64 = 64 * 1024;

/// What is made, and not read, is made again after so many seconds.
const MADE_FOR: u64 = 10;

/// One state of one file: changes when the file does.
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

/// Fields that a host's rules add: names and values.
pub(crate) type Fields = std::sync::Arc<[(Box<str>, Box<str>)]>;

/// A file in the cache.
pub(crate) struct Entry {
    pub(crate) id: FileId,
    pub(crate) length: u64,
    pub(crate) entity: Entity,
    pub(crate) content: Content,
    /// The same in other codings, if there may be any.
    pub(crate) variants: Option<Box<Variants>>,
    content_type: Kind,
    /// By which fields of a request it is chosen.
    vary: &'static str,
    /// What the host's rules add.
    fields: Fields,
    etag: String,
    modified: u64,
    /// It says what it should up to this second.
    until: u64,
}

/// Where a file's bytes are.
#[derive(Clone)]
pub(crate) enum Content {
    /// Here.
    Whole(Bytes),
    /// In blocks, to be asked for one by one.
    Blocks(File),
}

impl Entry {
    /// A file as it is, with what there is beside it.
    pub(crate) fn new(
        content_type: Kind,
        metadata: Metadata,
        content: Content,
        sources: Sources,
        fields: Fields,
    ) -> Self {
        let etag = file_tag(metadata);
        let (length, modified) = (metadata.length, seconds(metadata));
        let variants = Variants::new(sources);
        let vary = if variants.is_some() { "Accept-Encoding" } else { "" };
        let parts = Parts { content_type, vary, etag, modified, length, fields };
        Self { variants, ..parts.build(Coding::Identity, metadata.into(), content) }
    }

    /// Something made of `id`, by more of the request than its path, and as old as `metadata` says.
    /// With the bytes comes their hash.
    pub(crate) fn made(
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
        let parts =
            Parts { content_type, vary, etag, modified, length: bytes.len() as u64, fields };
        let content = Content::Whole(bytes);
        let made = parts.build(Coding::Identity, id, content);
        Self { variants, until: unix_seconds() + MADE_FOR, ..made }
    }

    /// The same in another coding, from a file of its own, which `metadata` tells of.
    pub(crate) fn beside(&self, coding: Coding, metadata: Metadata, content: Content) -> Self {
        let etag = with_coding(&file_tag(metadata), metadata.length, coding);
        let (content_type, vary) = (self.content_type.clone(), self.vary);
        let (modified, length) = (seconds(metadata), metadata.length);
        let fields = self.fields.clone();
        let parts = Parts { content_type, vary, etag, modified, length, fields };
        parts.build(coding, metadata.into(), content)
    }

    /// The same in another coding, made of it.
    pub(crate) fn encoded(&self, coding: Coding, bytes: Bytes) -> Self {
        let length = bytes.len() as u64;
        let etag = with_coding(&self.etag, length, coding);
        let Self { vary, modified, .. } = *self;
        let (content_type, fields) = (self.content_type.clone(), self.fields.clone());
        let parts = Parts { content_type, vary, etag, modified, length, fields };
        parts.build(coding, self.id, Content::Whole(bytes))
    }

    pub(crate) fn validators(&self) -> Validators<'_> {
        Validators { etag: &self.etag, modified: self.modified }
    }

    /// Whether the entry still says what it should of a file that has not changed.
    pub(crate) fn is_current(&self) -> bool {
        (!self.etag.starts_with("W/") || is_fresh(self.modified))
            && (self.until == u64::MAX || unix_seconds() <= self.until)
            && self.others().all(|variant| variant.is_current())
    }

    /// What has been made of it in other codings.
    fn others(&self) -> impl Iterator<Item = &Arc<Self>> {
        self.variants.iter().flat_map(|variants| variants.made())
    }

    /// Whether its file has been written to, where that is still to be sent: what is sent then would not be
    /// what its tag says. What lies at its path by now is another question.
    pub(crate) fn has_changed(&self) -> bool {
        match &self.content {
            Content::Whole(_) => false,
            Content::Blocks(file) => {
                file.metadata().map_or(true, |metadata| FileId::from(metadata) != self.id)
            }
        }
    }

    /// Whether it keeps a file open.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.content, Content::Blocks(_)) || self.others().any(|variant| variant.is_open())
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        let content = match &self.content {
            Content::Whole(bytes) => bytes.len(),
            Content::Blocks(_) => 0,
        };
        let variants = self.variants.as_ref().map_or(0, |_| size_of::<Variants>());
        let made: usize = self.others().map(|variant| variant.bytes()).sum();
        content + self.entity.full().len() + self.etag.len() + size_of::<Self>() + variants + made
    }
}

/// What an entry's lines are made of.
struct Parts {
    content_type: Kind,
    vary: &'static str,
    etag: String,
    modified: u64,
    length: u64,
    fields: Fields,
}

impl Parts {
    fn build(self, coding: Coding, id: FileId, content: Content) -> Entry {
        let Self { content_type, vary, etag, modified, length, fields } = self;
        let lines = fields.iter().map(|(name, value)| (&name[..], &value[..]));
        let mut lines: Vec<_> = lines.collect();
        if !vary.is_empty() {
            lines.push(("Vary", vary));
        }
        let validators = Validators { etag: &etag, modified };
        let entity = Entity::encoded(&content_type, coding, &validators, length, &lines);
        let (variants, until) = (None, u64::MAX);
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
            until,
        }
    }
}

/// The tag of a file's state.
fn file_tag(metadata: Metadata) -> String {
    // A file changed within this second may change again without its time or length telling so:
    // until then its tag is weak (RFC 9110 §8.8.1).
    let weak = if is_fresh(seconds(metadata)) { "W/" } else { "" };
    format!("{weak}\"{:x}-{:x}\"", metadata.modified_ns, metadata.length)
}

/// A tag for the same in another coding: no two representations share one (RFC 9110 §8.8.3.3), nor
/// do two makings of one that differ in length.
fn with_coding(etag: &str, length: u64, coding: Coding) -> String {
    let tag = etag.strip_suffix('"').unwrap_or(etag);
    format!("{tag}-{length:x}-{}\"", coding.name())
}

fn seconds(metadata: Metadata) -> u64 {
    u64::try_from(metadata.modified_ns / 1_000_000_000).unwrap_or(0)
}

fn is_fresh(modified: u64) -> bool {
    unix_seconds() <= modified + 1
}

#[cfg(test)]
impl FileId {
    /// One of many, for tests.
    pub(crate) fn of_length(length: u64) -> Self {
        Self { device: 0, inode: 0, modified_ns: 0, length }
    }
}

#[cfg(test)]
impl Entry {
    /// A file of these bytes, for tests: without a clock, which only a processor has.
    pub(crate) fn of(content: &'static str) -> Self {
        let content_type = phalanx_http::ContentType::UNKNOWN.into();
        let (etag, length) = ("\"0-4\"".to_owned(), content.len() as u64);
        let parts =
            Parts { content_type, vary: "", etag, modified: 0, length, fields: Fields::default() };
        let content = Content::Whole(Bytes::from_static(content.as_bytes()));
        parts.build(Coding::Identity, FileId::of_length(length), content)
    }
}
