//! A file as it is served: its validators, its lines for a response's head, its content.

use phalanx::Bytes;
use phalanx::fs::{File, Metadata};
use phalanx_http::{Entity, Validators, content_type};

use crate::connection::clock::today;

/// Files up to this size are kept whole, beside their lines; larger ones by blocks.
pub(crate) const WHOLE: u64 = 64 * 1024;

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

/// A file in the cache.
pub(crate) struct Entry {
    pub(crate) id: FileId,
    pub(crate) length: u64,
    pub(crate) entity: Entity,
    pub(crate) content: Content,
    etag: String,
    modified: u64,
}

/// Where a file's bytes are.
pub(crate) enum Content {
    /// Here.
    Whole(Bytes),
    /// In blocks, to be asked for one by one.
    Blocks(File),
}

impl Entry {
    pub(crate) fn new(path: &[u8], metadata: Metadata, content: Content) -> Self {
        let modified = u64::try_from(metadata.modified_ns / 1_000_000_000).unwrap_or(0);
        // A file changed within this second may change again without its time or length telling
        // so: until then its tag is weak (RFC 9110 §8.8.1).
        let weak = if is_fresh(modified) { "W/" } else { "" };
        let etag = format!("{weak}\"{:x}-{:x}\"", metadata.modified_ns, metadata.length);
        let validators = Validators { etag: &etag, modified };
        let entity = Entity::new(content_type(path), &validators, metadata.length, &[]);
        Self { id: metadata.into(), length: metadata.length, entity, content, etag, modified }
    }

    pub(crate) fn validators(&self) -> Validators<'_> {
        Validators { etag: &self.etag, modified: self.modified }
    }

    /// Whether the entry still says what it should of a file that has not changed.
    pub(crate) fn is_current(&self) -> bool {
        !self.etag.starts_with("W/") || is_fresh(self.modified)
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        let content = match &self.content {
            Content::Whole(bytes) => bytes.len(),
            Content::Blocks(_) => 0,
        };
        content + self.entity.full().len() + self.etag.len() + size_of::<Self>()
    }
}

fn is_fresh(modified: u64) -> bool {
    today() <= modified + 1
}

#[cfg(test)]
impl FileId {
    /// One of many, for tests.
    pub(crate) fn of_length(length: u64) -> Self {
        Self { device: 0, inode: 0, modified_ns: 0, length }
    }
}
