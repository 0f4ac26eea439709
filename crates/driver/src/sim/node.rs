//! Open files and directories of the disk, and the calls on them.

use std::ffi::CStr;
use std::fmt;
use std::io;

use super::disk::{Content, Inode, MAX_BYTES, Removed};
use super::{State, World, code};
use crate::files::read_dir::{DirEntries, DirEntry, DirEntryKind};
use crate::{Access, FileKind, Metadata, OpenHow, ReadNow, Space};

/// An open file or directory of a world's disk.
#[derive(Clone)]
pub(crate) struct Node {
    world: World,
    node: usize,
    writable: bool,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.node)
    }
}

impl Node {
    pub(super) fn directory(world: World, node: usize) -> Self {
        Self { world, node, writable: false }
    }

    /// Opens a node, if that needs no disk access.
    pub(crate) fn open_now(&self, path: &CStr, how: OpenHow) -> Option<io::Result<Self>> {
        let state = &mut *self.world.state();
        if state.chance(state.faults.uncached) {
            return None;
        }
        Some(self.find(state, path, how))
    }

    /// Opens a node. Fails at the fault rate of opens.
    pub(super) fn open(&self, path: &CStr, how: OpenHow) -> io::Result<Self> {
        let state = &mut *self.world.state();
        if state.chance(state.faults.open) {
            return Err(code(if state.rng.bool() { libc::EMFILE } else { libc::EIO }));
        }
        self.find(state, path, how)
    }

    fn find(&self, state: &mut State, path: &CStr, how: OpenHow) -> io::Result<Self> {
        if state.is_silent && how.access != Access::Read {
            return Err(code(libc::EIO));
        }
        let now = state.clock.time_of_day().as_nanos() as i128;
        let node = state.disk.find_or_make(self.node, path.to_bytes(), how, now)?;
        Ok(Self { world: self.world.clone(), node, writable: how.access != Access::Read })
    }

    /// Reads bytes that are in the page cache: all, some or none of those in the file.
    pub(crate) fn read_now(&self, buffer: &mut [u8], offset: u64) -> io::Result<ReadNow> {
        let state = &mut *self.world.state();
        let bytes = copy(state.disk.bytes(self.node)?, buffer, offset);
        if !state.chance(state.faults.uncached) {
            return Ok(ReadNow { bytes, complete: true });
        }
        Ok(ReadNow { bytes: state.rng.usize(..=bytes), complete: false })
    }

    /// Reads. Fails at the fault rate of the disk.
    pub(crate) fn read(&self, buffer: &mut Vec<u8>, offset: u64, length: usize) -> io::Result<()> {
        let state = &mut *self.world.state();
        if state.chance(state.faults.disk) {
            return Err(code(libc::EIO));
        }
        let bytes = state.disk.bytes(self.node)?;
        buffer.clear();
        buffer.resize(length.min(bytes.len()), 0);
        let read = copy(bytes, buffer, offset);
        buffer.truncate(read);
        Ok(())
    }

    /// Writes some of `bytes`. Fails at the fault rate of the disk.
    pub(super) fn write(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if !self.writable {
            return Err(code(libc::EBADF));
        }
        let state = &mut *self.world.state();
        if state.is_silent || state.chance(state.faults.disk) {
            return Err(code(libc::EIO));
        }
        if state.chance(state.faults.full) {
            return Err(code(libc::ENOSPC));
        }
        let short = state.chance(state.faults.short);
        let count = if short { state.rng.usize(1..=bytes.len()) } else { bytes.len() };
        let now = state.clock.time_of_day().as_nanos() as i128;
        let available = state.disk.available();
        let inode = &mut state.disk.nodes[self.node];
        let Content::File(content) = &mut inode.content else { return Err(code(libc::EISDIR)) };
        let from = usize::try_from(offset).map_err(|_| code(libc::EFBIG))?;
        // As much as fits; an error if nothing does.
        let fits = (content.len() as u64).saturating_add(available).saturating_sub(offset);
        let count = usize::try_from(fits).map_or(count, |fits| count.min(fits));
        if count == 0 && !bytes.is_empty() {
            return Err(code(libc::ENOSPC));
        }
        let end = from.checked_add(count).filter(|end| *end <= MAX_BYTES);
        let end = end.ok_or_else(|| code(libc::EFBIG))?;
        content.resize(content.len().max(end), 0);
        content[from..end].copy_from_slice(&bytes[..count]);
        inode.modified_ns = now;
        inode.durable.record_write(from, &bytes[..count]);
        Ok(count)
    }

    /// Allocates space for a file of this length, or finds the disk full.
    pub(crate) fn allocate(&self, length: u64) -> io::Result<()> {
        let state = &mut *self.world.state();
        if state.is_silent {
            return Err(code(libc::EIO));
        }
        let (full, available) = (state.chance(state.faults.full), state.disk.available());
        let inode = &mut state.disk.nodes[self.node];
        let Content::File(content) = &mut inode.content else { return Err(code(libc::EISDIR)) };
        let more = length.saturating_sub(content.len() as u64);
        if full || more > available {
            return Err(code(libc::ENOSPC));
        }
        let length = usize::try_from(length).ok().filter(|length| *length <= MAX_BYTES);
        let length = length.ok_or_else(|| code(libc::EFBIG))?;
        if length > content.len() {
            content.resize(length, 0);
            inode.durable.allocated(length);
        }
        Ok(())
    }

    pub(crate) fn space(&self) -> Space {
        let disk = &self.world.state().disk;
        Space { total: disk.capacity, available: disk.available() }
    }

    /// Flushes the content, or the names in a directory, to the disk. Fails at the fault rate of the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        let state = &mut *self.world.state();
        if state.is_silent {
            return Err(code(libc::EIO));
        }
        let fails = state.chance(state.faults.disk);
        state.disk.removed.retain(|removed| fails || removed.directory != self.node);
        let nodes = &mut state.disk.nodes;
        if fails {
            nodes[self.node].durable.failed();
            return Err(code(libc::EIO));
        }
        let children: Vec<usize> = match &nodes[self.node].content {
            Content::Directory(entries) => entries.values().copied().collect(),
            _ => Vec::new(),
        };
        children.into_iter().for_each(|child| nodes[child].durable.named());
        nodes[self.node].durable.synced();
        Ok(())
    }

    /// Lists a directory. Fails at the fault rate of the disk.
    pub(crate) fn read_dir(
        &self,
        limit: usize,
        filter: &dyn Fn(&[u8]) -> bool,
    ) -> io::Result<DirEntries> {
        let mut guard = self.world.state();
        let state = &mut *guard;
        if state.chance(state.faults.disk) {
            return Err(code(libc::EIO));
        }
        let Content::Directory(entries) = &state.disk.nodes[self.node].content else {
            return Err(code(libc::ENOTDIR));
        };
        let named = entries.iter().map(|(name, node)| {
            let Inode { content, modified_ns, .. } = &state.disk.nodes[*node];
            let (kind, length) = match content {
                Content::File(bytes) => (DirEntryKind::File, bytes.len() as u64),
                Content::Directory(_) => (DirEntryKind::Directory, 0),
                Content::Link(_) => (DirEntryKind::Link, 0),
            };
            DirEntry { name: name.clone(), kind, length, modified_ns: *modified_ns }
        });
        let mut names: Vec<_> = named.collect();
        // `filter` may use the world, so it is called without the lock.
        drop(guard);
        names.retain(|named| filter(&named.name));
        let truncated = names.len() > limit;
        names.truncate(limit);
        Ok(DirEntries { entries: names, truncated })
    }

    /// Removes a file's name from a directory. Fails at the fault rate of the disk.
    pub(crate) fn remove(&self, name: &CStr) -> io::Result<()> {
        let state = &mut *self.world.state();
        if state.is_silent || state.chance(state.faults.disk) {
            return Err(code(libc::EIO));
        }
        let nodes = &state.disk.nodes;
        let Content::Directory(entries) = &nodes[self.node].content else {
            return Err(code(libc::ENOTDIR));
        };
        match entries.get(name.to_bytes()).map(|node| &nodes[*node].content) {
            None => Err(code(libc::ENOENT)),
            Some(Content::Directory(_)) => Err(code(libc::EISDIR)),
            Some(_) => {
                let (directory, name) = (self.node, name.to_bytes().to_vec());
                if let Some(node) = state.disk.entries(directory).remove(&name) {
                    state.disk.removed.push(Removed { directory, name, node });
                }
                Ok(())
            }
        }
    }

    pub(crate) fn metadata(&self) -> Metadata {
        let state = self.world.state();
        let inode = &state.disk.nodes[self.node];
        let (kind, length) = match &inode.content {
            Content::File(bytes) => (FileKind::File, bytes.len()),
            Content::Directory(_) => (FileKind::Directory, 0),
            Content::Link(_) => (FileKind::Other, 0),
        };
        Metadata {
            kind,
            length: length as u64,
            modified_ns: inode.modified_ns,
            // No request sets a time or changes an owner, so this is the time of the last write.
            changed_ns: inode.modified_ns,
            inode: self.node as u64 + 1,
            device: 1,
        }
    }
}

fn copy(bytes: &[u8], into: &mut [u8], offset: u64) -> usize {
    let from = usize::try_from(offset).map_or(bytes.len(), |offset| offset.min(bytes.len()));
    let count = into.len().min(bytes.len() - from);
    into[..count].copy_from_slice(&bytes[from..from + count]);
    count
}
