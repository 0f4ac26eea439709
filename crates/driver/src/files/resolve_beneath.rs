//! Opening files beneath a directory, and never outside it.
//!
//! Linux resolves such a path in one call (`openat2`). On other systems, on kernels before 5.6, and in sandboxes that
//! refuse the call, the path is resolved one component at a time, so that the kernel never follows a link by itself.
//! The same is done for [`SymlinkPolicy::OwnerMatches`]. In that case, the compared owners are those of the link that
//! was actually read and of the file that was actually opened, even if another process moves files concurrently.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

use crate::{Access, OpenHow, SymlinkPolicy};

/// Close-on-exec, and non-blocking so that opening a pipe does not wait.
const FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Flags for intermediate directories. Like in the kernel's resolution, no permission to read them is needed.
#[cfg(target_os = "linux")]
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY);
#[cfg(not(target_os = "linux"))]
const DIRECTORY: OFlags = FLAGS.union(OFlags::DIRECTORY);

/// The flags for the last component and, for a file that may be created, its mode.
pub(crate) fn flags(how: OpenHow) -> (OFlags, Mode) {
    let (file_mode, private) = (Mode::from_raw_mode(0o666), Mode::from_raw_mode(0o600));
    match how.access {
        Access::Read => (FLAGS, Mode::empty()),
        Access::Write => (FLAGS | OFlags::RDWR, Mode::empty()),
        Access::Create => (FLAGS | OFlags::RDWR | OFlags::CREATE, file_mode),
        Access::CreatePrivate => (FLAGS | OFlags::RDWR | OFlags::CREATE, private),
        Access::CreateNew => (FLAGS | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, file_mode),
    }
}

/// The maximum number of links in one path, which is the same as in the kernel.
const MAX_LINKS: usize = 40;

/// The resolve flags for `openat2`.
#[cfg(target_os = "linux")]
pub(crate) fn resolve(how: OpenHow) -> rustix::fs::ResolveFlags {
    use rustix::fs::ResolveFlags as Resolve;
    let links = match how.links {
        SymlinkPolicy::Follow => Resolve::empty(),
        SymlinkPolicy::Deny | SymlinkPolicy::OwnerMatches => Resolve::NO_SYMLINKS,
    };
    Resolve::BENEATH | Resolve::NO_MAGICLINKS | links
}

/// Opens `path` beneath `directory`. May block.
pub(crate) fn open(directory: BorrowedFd<'_>, path: &CStr, how: OpenHow) -> io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    let (flags, mode) = flags(how);
    #[cfg(target_os = "linux")]
    match rustix::fs::openat2(directory, path, flags, mode, resolve(how)) {
        // A file was moved during the call, so the kernel cannot tell whether `..` still stays within the directory. Or
        // a sandbox refuses a call that it does not know. If the file may not be opened, the same error follows below.
        Err(Errno::NOSYS | Errno::AGAIN | Errno::PERM) => {}
        // The path contains a link.
        Err(Errno::LOOP) if how.links == SymlinkPolicy::OwnerMatches => {}
        done => return Ok(done?),
    }
    walk(directory, path, how)
}

/// The same as [`open`], without `openat2`.
fn walk(root: BorrowedFd<'_>, path: &CStr, how: OpenHow) -> io::Result<OwnedFd> {
    if path.is_empty() {
        return Err(Errno::NOENT.into());
    }
    let mut todo = components(path.to_bytes())?;
    let (requested, mode) = flags(how);
    if requested.contains(OFlags::CREATE) && path.to_bytes().ends_with(b"/") {
        return Err(Errno::ISDIR.into());
    }
    let mut links = 0;
    let mut pending_owners = PendingOwners::default();
    // The directories from the root, which is not included, down to the current one.
    let mut above: Vec<OwnedFd> = Vec::new();
    while let Some(name) = todo.pop_front() {
        if name.as_bytes() == b".." {
            above.pop().ok_or(Errno::XDEV)?;
            pending_owners.check(todo.len(), above.last().map_or(root, AsFd::as_fd))?;
            continue;
        }
        let here = above.last().map_or(root, AsFd::as_fd);
        let last = todo.is_empty();
        if name.as_bytes() == b"." {
            pending_owners.check(todo.len(), here)?;
            continue;
        }
        let (flags, mode) = if last { (requested, mode) } else { (DIRECTORY, Mode::empty()) };
        match openat(here, &name, flags | OFlags::NOFOLLOW, mode) {
            Ok(fd) => {
                pending_owners.check(todo.len(), fd.as_fd())?;
                if last {
                    return Ok(fd);
                }
                above.push(fd);
            }
            // A link: ELOOP, or ENOTDIR if a directory was requested.
            Err(error @ (Errno::LOOP | Errno::NOTDIR)) => {
                let Ok(target) = readlinkat(here, &name, Vec::new()) else {
                    return Err(error.into());
                };
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::LOOP.into());
                }
                let target = match how.links {
                    SymlinkPolicy::Follow => target,
                    SymlinkPolicy::OwnerMatches if how.access == Access::Read => {
                        let (target, owner) = read_link(here, &name)?;
                        pending_owners.0.push((todo.len(), owner));
                        target
                    }
                    SymlinkPolicy::Deny | SymlinkPolicy::OwnerMatches => {
                        return Err(Errno::LOOP.into());
                    }
                };
                let mut inner = components(target.to_bytes())?;
                inner.append(&mut todo);
                todo = inner;
            }
            Err(error) => return Err(error.into()),
        }
    }
    // The path ends in `.` or `..`.
    if requested.contains(OFlags::EXCL) {
        return Err(Errno::EXIST.into());
    }
    let here = above.last().map_or(root, AsFd::as_fd);
    Ok(openat(here, c".", requested.difference(OFlags::CREATE), Mode::empty())?)
}

/// The links in the path so far whose targets have not been reached. Contains the number of components that remained
/// after each link, and the link's owner.
#[derive(Default)]
struct PendingOwners(Vec<(usize, u32)>);

impl PendingOwners {
    /// Called when `remaining` components remain, so that `here` is the target of the links that end at this point.
    /// Fails with `ELOOP` if the target's owner differs from the owner of a link.
    fn check(&mut self, remaining: usize, here: BorrowedFd<'_>) -> io::Result<()> {
        while self.0.last().is_some_and(|(remaining_after, _)| *remaining_after == remaining) {
            let (_, owner) = self.0.pop().unwrap_or_default();
            if rustix::fs::fstat(here)?.st_uid != owner {
                return Err(Errno::LOOP.into());
            }
        }
        Ok(())
    }
}

/// The target and the owner of a link, read from the same link.
#[cfg(target_os = "linux")]
fn read_link(here: BorrowedFd<'_>, name: &CStr) -> io::Result<(CString, u32)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let link = openat(here, name, flags, Mode::empty())?;
    // An empty name refers to the descriptor itself. The call fails if that is no longer a link.
    Ok((readlinkat(&link, c"", Vec::new())?, rustix::fs::fstat(&link)?.st_uid))
}

#[cfg(not(target_os = "linux"))]
fn read_link(_: BorrowedFd<'_>, _: &CStr) -> io::Result<(CString, u32)> {
    Err(Errno::LOOP.into())
}

/// The components of a relative path. A final slash requests a directory and becomes a `.`.
fn components(path: &[u8]) -> io::Result<VecDeque<CString>> {
    if path.first() == Some(&b'/') {
        return Err(Errno::XDEV.into());
    }
    let mut names = VecDeque::new();
    let mut parts = path.split(|byte| *byte == b'/').peekable();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        let skipped = part.is_empty() || part == b".";
        if !skipped || last {
            let name = if skipped { &b"."[..] } else { part };
            names.push_back(CString::new(name)?);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A directory `root` with a secret next to it.
    #[cfg(target_os = "linux")]
    fn tree() -> tempfile::TempDir {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        let root = outside.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/file"), "within").unwrap();
        symlink("file", root.join("a/link")).unwrap();
        symlink("a", root.join("dir")).unwrap();
        symlink("../secret", root.join("out")).unwrap();
        symlink("../made", root.join("nowhere")).unwrap();
        symlink("a/made", root.join("dangling")).unwrap();
        symlink("..", root.join("up")).unwrap();
        symlink("/etc/passwd", root.join("absolute")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink("../a/file", root.join("a/around")).unwrap();
        outside
    }

    #[cfg(target_os = "linux")]
    const PATHS: [&str; 34] = [
        "a/file",
        "a/link",
        "dir/file",
        "dir/link",
        "a/b",
        "a/b/",
        "a/file/",
        "a/file/x",
        "a",
        ".",
        "a/.",
        "a/..",
        "a/b/../file",
        "..",
        "../secret",
        "a/../../secret",
        "out",
        "up/secret",
        "absolute",
        "loop",
        "/etc/passwd",
        "missing",
        "missing/x",
        "a/missing",
        "dir/missing",
        "nowhere",
        "dangling",
        "a//file",
        "./a/./file",
        "a/around",
        "dir",
        "dir/",
        "link/..",
        "",
    ];

    /// Both implementations agree on every path: in the result, the error and the files that they leave
    /// behind.
    #[test]
    #[cfg(target_os = "linux")]
    fn the_walk_agrees_with_the_kernel() {
        for access in
            [Access::Read, Access::Write, Access::Create, Access::CreatePrivate, Access::CreateNew]
        {
            for links in [SymlinkPolicy::Deny, SymlinkPolicy::Follow] {
                let how = OpenHow { links, access };
                for path in PATHS {
                    let kernel = opened(path, |root, name| open(root, name, how));
                    let walked = opened(path, |root, name| walk(root, name, how));
                    assert_eq!(kernel, walked, "{path:?}, {how:?}");
                    assert!(!kernel.0.is_ok_and(|text| text.contains("secret")), "{path:?}");
                    assert!(!kernel.1.iter().any(|name| name == "made"), "{path:?} got out");
                }
            }
        }
    }

    /// The result of opening `path` in a new tree, and the names next to and beneath its root afterwards.
    #[cfg(target_os = "linux")]
    fn opened(
        path: &str,
        open: impl Fn(BorrowedFd<'_>, &CStr) -> io::Result<OwnedFd>,
    ) -> (Result<String, Option<i32>>, Vec<std::ffi::OsString>) {
        let outside = tree();
        let root = OwnedFd::from(fs::File::open(outside.path().join("root")).unwrap());
        let outcome = outcome(open(root.as_fd(), &CString::new(path).unwrap()));
        let mut left = Vec::new();
        for directory in ["root/a", "root", "."] {
            let mut names: Vec<_> = fs::read_dir(outside.path().join(directory))
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            names.sort();
            // Files that were created beneath the root are allowed.
            let within = directory == "root/a";
            left.extend(
                names.into_iter().map(|name| {
                    if within && name == "made" { "made beneath".into() } else { name }
                }),
            );
        }
        (outcome, left)
    }

    /// A link is followed only if it has the same owner as its target. Needs root, to change owners.
    #[test]
    #[cfg(target_os = "linux")]
    fn links_must_have_the_owner_of_their_target() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root may change owners");
            return;
        }
        let (alice, bob) = (Some(1001), Some(1002));
        let outside = tree();
        let root = outside.path().join("root");
        let own = |name: &str, owner| {
            std::os::unix::fs::lchown(root.join(name), owner, owner).unwrap();
        };
        symlink("a/link", root.join("chain")).unwrap();
        symlink("a/../a/", root.join("slash")).unwrap();
        symlink(".", root.join("self")).unwrap();
        symlink("slash/../out", root.join("far")).unwrap();
        for name in ["a", "a/file", "a/link", "dir", "chain", "slash", "a/around"] {
            own(name, alice);
        }
        let how = OpenHow { links: SymlinkPolicy::OwnerMatches, access: Access::Read };
        let read = |path: &str| {
            let root = OwnedFd::from(fs::File::open(&root).unwrap());
            outcome(open(root.as_fd(), &CString::new(path).unwrap(), how)).ok()
        };
        let within = Some("within".to_owned());
        for path in ["a/file", "a/link", "dir/file", "dir/link", "chain", "a/around", "slash/file"]
        {
            assert_eq!(read(path), within, "{path}");
        }
        assert_eq!(read("self/a/file"), within, "root's own");
        for path in ["out", "up/secret", "absolute", "loop", "far", "../secret", "nowhere"] {
            assert_eq!(read(path), None, "{path}");
        }
        // The target of the link has another owner, even if the links between have the same.
        own("a/file", bob);
        for path in ["a/link", "dir/link", "chain", "a/around"] {
            assert_eq!(read(path), None, "{path}");
        }
        for path in ["a/file", "dir/file", "slash/file"] {
            assert_eq!(read(path), within, "{path}: no link leads to the file itself");
        }
        // A link in the path to the link.
        own("a/link", bob);
        assert_eq!(read("a/link"), within);
        assert_eq!(read("chain"), None, "its target is a link of another owner");
        // A directory in the path.
        own("a", bob);
        for path in ["dir/file", "slash/file", "dir", "dir/"] {
            assert_eq!(read(path), None, "{path}");
        }
        own("self", bob);
        assert_eq!(read("self/a/file"), None, "the link leads to the root");
    }

    /// Like the kernel, this requires only permission to search the directories.
    #[test]
    #[cfg(target_os = "linux")]
    fn directories_need_not_be_readable() {
        use std::os::unix::fs::PermissionsExt;

        use rustix::thread::{Uid, set_thread_uid};

        let outside = tree();
        let directory = outside.path().join("root/a");
        let permit = |mode| fs::set_permissions(&directory, fs::Permissions::from_mode(mode));
        permit(0o311).unwrap();
        let root = OwnedFd::from(fs::File::open(outside.path().join("root")).unwrap());
        let read = |path: &str, links| {
            let how = OpenHow { links, access: Access::Read };
            let path = CString::new(path).unwrap();
            [open, walk].map(|open| outcome(open(root.as_fd(), &path, how)))
        };
        let within = || Ok("within".to_owned());
        std::thread::scope(|scope| {
            let reads = scope.spawn(|| {
                if rustix::process::geteuid().is_root() {
                    // Changes the user of this thread only, because root may read every directory.
                    set_thread_uid(Uid::from_raw(65534)).unwrap();
                }
                assert!(
                    read("a", SymlinkPolicy::Follow).iter().all(Result::is_err),
                    "it is unreadable"
                );
                for path in ["a/file", "a/link", "dir/file", "a/around"] {
                    for links in [SymlinkPolicy::Follow, SymlinkPolicy::OwnerMatches] {
                        assert_eq!(read(path, links), [within(), within()], "{path}, {links:?}");
                    }
                }
            });
            reads.join().unwrap();
        });
        permit(0o755).unwrap();
    }

    #[cfg(target_os = "linux")]
    fn outcome(opened: io::Result<OwnedFd>) -> Result<String, Option<i32>> {
        let mut file = fs::File::from(opened.map_err(|error| error.raw_os_error())?);
        if file.metadata().unwrap().is_dir() {
            return Ok("a directory".to_owned());
        }
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        Ok(text)
    }
}
