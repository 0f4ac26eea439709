//! The disk: a tree of directories, files and links in memory.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::CStr;
use std::fmt;
use std::io;

use fastrand::Rng;

use super::durable::Durable;
use super::{State, World};
use crate::files::read_dir::{DirEntries, DirEntry, DirEntryKind};
use crate::{Access, FileKind, Links, Metadata, OpenHow, ReadNow, Space};

/// The largest number of links in one path, as in the kernel.
const MAX_LINKS: usize = 40;

pub(super) const ROOT: usize = 0;

/// The largest file.
const MAX_BYTES: usize = 1 << 30;

/// Nodes are never removed, so a file without a name stays usable while it is open.
pub(crate) struct Disk {
    nodes: Vec<Inode>,
    /// The largest number of bytes in all files.
    capacity: u64,
}

struct Inode {
    content: Content,
    modified_ns: i128,
    /// The part that survives a power failure.
    durable: Durable,
}

enum Content {
    File(Vec<u8>),
    Directory(BTreeMap<Vec<u8>, usize>),
    Link(Vec<u8>),
}

fn code(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

impl Disk {
    pub(super) fn new() -> Self {
        let content = Content::Directory(BTreeMap::new());
        let root = Inode { content, modified_ns: 0, durable: Durable::default() };
        Self { nodes: vec![root], capacity: u64::MAX }
    }

    pub(super) fn set_capacity(&mut self, bytes: u64) {
        self.capacity = bytes;
    }

    /// The number of bytes that can still be written to files. Open files without a name take no space.
    fn available(&self) -> u64 {
        if self.capacity == u64::MAX {
            return u64::MAX;
        }
        let (mut used, mut todo) = (0, vec![ROOT]);
        while let Some(node) = todo.pop() {
            match &self.nodes[node].content {
                Content::File(bytes) => used += bytes.len() as u64,
                Content::Directory(entries) => todo.extend(entries.values()),
                Content::Link(_) => (),
            }
        }
        self.capacity.saturating_sub(used)
    }

    fn entries(&mut self, directory: usize) -> &mut BTreeMap<Vec<u8>, usize> {
        match &mut self.nodes[directory].content {
            Content::Directory(entries) => entries,
            _ => panic!("the path leads through a file"),
        }
    }

    /// The directory of `path`, which is created if it does not exist, and the last name.
    fn place(&mut self, path: &str) -> (usize, Vec<u8>) {
        let (parts, name) = path.rsplit_once('/').unwrap_or(("", path));
        assert!(!name.is_empty(), "a path names something");
        (self.directory(parts), name.as_bytes().to_vec())
    }

    /// The directory at `path`, which is created if it does not exist.
    pub(super) fn directory(&mut self, path: &str) -> usize {
        let mut here = ROOT;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            here = match self.entries(here).get(part.as_bytes()) {
                Some(node) => *node,
                None => {
                    let content = Content::Directory(BTreeMap::new());
                    self.add(here, part.as_bytes().to_vec(), content, 0)
                }
            };
        }
        here
    }

    fn add(&mut self, directory: usize, name: Vec<u8>, content: Content, now: i128) -> usize {
        let node = self.nodes.len();
        self.nodes.push(Inode { content, modified_ns: now, durable: Durable::default() });
        self.entries(directory).insert(name, node);
        node
    }

    pub(super) fn write(&mut self, path: &str, bytes: Vec<u8>, now: i128) {
        let (directory, name) = self.place(path);
        let durable = Durable::whole(&bytes);
        let node = match self.entries(directory).get(&name).copied() {
            None => self.add(directory, name, Content::File(Vec::new()), now),
            Some(node) => node,
        };
        let inode = &mut self.nodes[node];
        assert!(matches!(inode.content, Content::File(_)), "{path} is a file");
        *inode = Inode { content: Content::File(bytes), modified_ns: now, durable };
    }

    pub(super) fn link(&mut self, path: &str, target: &str) {
        let (directory, name) = self.place(path);
        self.add(directory, name, Content::Link(target.into()), 0);
    }

    pub(super) fn remove(&mut self, path: &str) -> bool {
        let (directory, name) = self.place(path);
        self.entries(directory).remove(&name).is_some()
    }

    /// The content of the file at `path` after a power failure now; `None` if its name would be lost.
    pub(super) fn survivors(&mut self, path: &str, rng: &mut Rng) -> Option<Vec<u8>> {
        let (directory, name) = self.place(path);
        let node = *self.entries(directory).get(&name)?;
        self.nodes[node].durable.survivors(rng)
    }

    /// The node of `path` beneath `root`, as `openat2(2)` with `RESOLVE_BENEATH` finds it.
    fn find(&self, root: usize, path: &[u8], how: OpenHow) -> io::Result<usize> {
        if path.is_empty() {
            return Err(code(libc::ENOENT));
        }
        let mut todo = components(path)?;
        let (mut here, mut above, mut links) = (root, Vec::new(), 0);
        while let Some(name) = todo.pop_front() {
            let Content::Directory(entries) = &self.nodes[here].content else {
                return Err(code(libc::ENOTDIR));
            };
            match &name[..] {
                b"." => continue,
                b".." => here = above.pop().ok_or_else(|| code(libc::EXDEV))?,
                name if name.len() > 255 => return Err(code(libc::ENAMETOOLONG)),
                name => {
                    let node = *entries.get(name).ok_or_else(|| code(libc::ENOENT))?;
                    if let Content::Link(target) = &self.nodes[node].content {
                        links += 1;
                        if how.links == Links::Refused || links > MAX_LINKS {
                            return Err(code(libc::ELOOP));
                        }
                        let mut inner = components(target)?;
                        inner.append(&mut todo);
                        todo = inner;
                    } else {
                        above.push(std::mem::replace(&mut here, node));
                    }
                }
            }
        }
        Ok(here)
    }

    /// The node of `path`, which is created if the access mode requests it.
    fn find_or_make(
        &mut self,
        root: usize,
        path: &[u8],
        how: OpenHow,
        now: i128,
    ) -> io::Result<usize> {
        let makes =
            matches!(how.access, Access::Create | Access::CreatePrivate | Access::CreateNew);
        // With `CreateNew`, a link at the name itself is not followed.
        let links = if how.access == Access::CreateNew { Links::Refused } else { how.links };
        match self.find(root, path, OpenHow { links, ..how }) {
            Err(error) if makes && error.raw_os_error() == Some(libc::ENOENT) => {
                let cut = path.iter().rposition(|byte| *byte == b'/');
                let (above, name) = match cut {
                    Some(cut) => (self.find(root, &path[..cut], how)?, &path[cut + 1..]),
                    None => (root, path),
                };
                match &self.nodes[above].content {
                    _ if name.is_empty() => Err(code(libc::EISDIR)),
                    // A link to a missing target. It is not followed to create the target.
                    Content::Directory(entries) if entries.contains_key(name) => {
                        Err(code(libc::ENOENT))
                    }
                    Content::Directory(_) => {
                        Ok(self.add(above, name.to_vec(), Content::File(Vec::new()), now))
                    }
                    _ => Err(code(libc::ENOTDIR)),
                }
            }
            Ok(_) if how.access == Access::CreateNew => Err(code(libc::EEXIST)),
            Err(error)
                if how.access == Access::CreateNew && error.raw_os_error() == Some(libc::ELOOP) =>
            {
                Err(code(libc::EEXIST))
            }
            Ok(node) if how.access != Access::Read => self.bytes(node).map(|_| node),
            found => found,
        }
    }

    fn bytes(&self, node: usize) -> io::Result<&[u8]> {
        match &self.nodes[node].content {
            Content::File(bytes) => Ok(bytes),
            _ => Err(code(libc::EISDIR)),
        }
    }
}

/// The components of a relative path. A final slash requests a directory and becomes a `.`.
fn components(path: &[u8]) -> io::Result<VecDeque<Vec<u8>>> {
    if path.first() == Some(&b'/') {
        return Err(code(libc::EXDEV));
    }
    let parts = path.split(|byte| *byte == b'/');
    Ok(parts.map(|part| if part.is_empty() { b".".to_vec() } else { part.to_vec() }).collect())
}

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

    /// Opens a node, or fails as a disk may.
    pub(super) fn open(&self, path: &CStr, how: OpenHow) -> io::Result<Self> {
        let state = &mut *self.world.state();
        if state.chance(state.faults.open) {
            return Err(code(if state.rng.bool() { libc::EMFILE } else { libc::EIO }));
        }
        self.find(state, path, how)
    }

    fn find(&self, state: &mut State, path: &CStr, how: OpenHow) -> io::Result<Self> {
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

    /// Reads, or fails as a disk may.
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

    /// Writes some of `bytes`, or fails as a disk may.
    pub(super) fn write(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if !self.writable {
            return Err(code(libc::EBADF));
        }
        let state = &mut *self.world.state();
        if state.chance(state.faults.disk) {
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
        inode.durable.wrote(from, &bytes[..count]);
        Ok(count)
    }

    /// Allocates space for a file of this length, or finds the disk full.
    pub(crate) fn allocate(&self, length: u64) -> io::Result<()> {
        let state = &mut *self.world.state();
        let (full, available) = (state.chance(state.faults.full), state.disk.available());
        let Content::File(content) = &mut state.disk.nodes[self.node].content else {
            return Err(code(libc::EISDIR));
        };
        let more = length.saturating_sub(content.len() as u64);
        if full || more > available {
            return Err(code(libc::ENOSPC));
        }
        let length = usize::try_from(length).ok().filter(|length| *length <= MAX_BYTES);
        let length = length.ok_or_else(|| code(libc::EFBIG))?;
        content.resize(content.len().max(length), 0);
        Ok(())
    }

    pub(crate) fn space(&self) -> Space {
        let disk = &self.world.state().disk;
        Space { total: disk.capacity, available: disk.available() }
    }

    /// Flushes the content, or the names in a directory, to the disk, or fails as a disk may.
    pub(super) fn sync(&self) -> io::Result<()> {
        let state = &mut *self.world.state();
        let fails = state.chance(state.faults.disk);
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

    /// The entries of a directory, or fails as a disk may.
    pub(crate) fn read_dir(
        &self,
        most: usize,
        keep: &dyn Fn(&[u8]) -> bool,
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
        // `keep` may use the world, so it is called without the lock.
        drop(guard);
        names.retain(|named| keep(&named.name));
        let truncated = names.len() > most;
        names.truncate(most);
        Ok(DirEntries { entries: names, truncated })
    }

    /// Removes a file's name from a directory, or fails as a disk may.
    pub(crate) fn remove(&self, name: &CStr) -> io::Result<()> {
        let state = &mut *self.world.state();
        if state.chance(state.faults.disk) {
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
                state.disk.entries(self.node).remove(name.to_bytes());
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
