//! The disk: a tree of directories, files and links in memory.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use fastrand::Rng;

use super::code;
use super::durable::Durable;
use crate::{Access, OpenHow, SymlinkPolicy};

/// The maximum number of links in one path, as in the kernel.
const MAX_LINKS: usize = 40;

pub(super) const ROOT: usize = 0;

/// The maximum size of a file.
pub(super) const MAX_BYTES: usize = 1 << 30;

/// Nodes are never removed, so a file without a name stays usable while it is open.
pub(crate) struct Disk {
    pub(super) nodes: Vec<Inode>,
    /// The maximum number of bytes in all files.
    pub(super) capacity: u64,
    /// Names that programs have removed from directories that were not synced since.
    pub(super) removed: Vec<Removed>,
}

/// A name that may exist again after a power failure.
pub(super) struct Removed {
    pub(super) directory: usize,
    pub(super) name: Vec<u8>,
    pub(super) node: usize,
}

pub(super) struct Inode {
    pub(super) content: Content,
    pub(super) modified_ns: i128,
    /// The part that survives a power failure.
    pub(super) durable: Durable,
}

pub(super) enum Content {
    File(Vec<u8>),
    Directory(BTreeMap<Vec<u8>, usize>),
    Link(Vec<u8>),
}

impl Disk {
    pub(super) fn new() -> Self {
        let content = Content::Directory(BTreeMap::new());
        let root = Inode { content, modified_ns: 0, durable: Durable::default() };
        Self { nodes: vec![root], capacity: u64::MAX, removed: Vec::new() }
    }

    pub(super) fn set_capacity(&mut self, bytes: u64) {
        self.capacity = bytes;
    }

    /// The number of bytes that can still be written to files. Open files without a name take no space.
    pub(super) fn available(&self) -> u64 {
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

    pub(super) fn entries(&mut self, directory: usize) -> &mut BTreeMap<Vec<u8>, usize> {
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
        let durable = Durable::new(&bytes);
        let node = match self.entries(directory).get(&name).copied() {
            None => self.add(directory, name, Content::File(Vec::new()), now),
            Some(node) => node,
        };
        let inode = &mut self.nodes[node];
        assert!(matches!(inode.content, Content::File(_)), "{path} is a file");
        *inode = Inode { content: Content::File(bytes), modified_ns: now, durable };
        self.settle(path);
    }

    /// Makes the removal of earlier files at `path` durable.
    fn settle(&mut self, path: &str) {
        let (directory, name) = self.place(path);
        self.removed.retain(|removed| removed.directory != directory || removed.name != name);
    }

    pub(super) fn link(&mut self, path: &str, target: &str) {
        let (directory, name) = self.place(path);
        self.add(directory, name, Content::Link(target.into()), 0);
    }

    pub(super) fn remove(&mut self, path: &str) -> bool {
        self.settle(path);
        let (directory, name) = self.place(path);
        self.entries(directory).remove(&name).is_some()
    }

    /// The content of the file at `path` after a power failure at this moment; `None` if its name would be lost.
    pub(super) fn survivors(&mut self, path: &str, rng: &mut Rng) -> Option<Vec<u8>> {
        let (directory, name) = self.place(path);
        if let Some(node) = self.entries(directory).get(&name).copied()
            && let Some(bytes) = self.nodes[node].durable.survivors(rng)
        {
            return Some(bytes);
        }
        let mut removed = self.removed.iter().rev();
        let removed = removed.find(|node| node.directory == directory && node.name == name)?;
        rng.bool().then(|| self.nodes[removed.node].durable.survivors(rng)).flatten()
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
                        if how.links == SymlinkPolicy::Deny || links > MAX_LINKS {
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
    pub(super) fn find_or_make(
        &mut self,
        root: usize,
        path: &[u8],
        how: OpenHow,
        now: i128,
    ) -> io::Result<usize> {
        let creates =
            matches!(how.access, Access::Create | Access::CreatePrivate | Access::CreateNew);
        // With `CreateNew`, a link at the name itself is not followed.
        let links = if how.access == Access::CreateNew { SymlinkPolicy::Deny } else { how.links };
        match self.find(root, path, OpenHow { links, ..how }) {
            Err(error) if creates && error.raw_os_error() == Some(libc::ENOENT) => {
                let slash = path.iter().rposition(|byte| *byte == b'/');
                let (above, name) = match slash {
                    Some(slash) => (self.find(root, &path[..slash], how)?, &path[slash + 1..]),
                    None => (root, path),
                };
                let entries = match &self.nodes[above].content {
                    _ if name.is_empty() => return Err(code(libc::EISDIR)),
                    Content::Directory(entries) => entries,
                    _ => return Err(code(libc::ENOTDIR)),
                };
                match entries.get(name).map(|node| &self.nodes[*node].content) {
                    // A link to a missing target, which is created. `find` has bounded the number of links.
                    Some(Content::Link(target)) if target.first() == Some(&b'/') => {
                        Err(code(libc::EXDEV))
                    }
                    Some(Content::Link(target)) => {
                        let path = [&path[..slash.map_or(0, |slash| slash + 1)], target].concat();
                        self.find_or_make(root, &path, how, now)
                    }
                    Some(_) => Err(code(libc::ENOENT)),
                    None => Ok(self.add(above, name.to_vec(), Content::File(Vec::new()), now)),
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

    pub(super) fn bytes(&self, node: usize) -> io::Result<&[u8]> {
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
