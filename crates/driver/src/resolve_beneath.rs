//! Opening a file beneath a directory, and never one outside of it.
//!
//! Linux does it in one call (`openat2`); elsewhere, and on kernels before 5.6, the path is walked
//! one component at a time, so that no link is ever followed by the kernel itself. So it is where a
//! link is followed only if it belongs to whom its target belongs to: the owner that is compared is
//! that of the very link that was read, and that of the very file that was opened, whatever anybody
//! moves meanwhile.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

use crate::{Access, Links, OpenHow};

/// Close-on-exec; non-blocking so that a pipe somebody put there cannot stop us.
const FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// The flags and, for a file that may be made, the mode with which the last component is opened.
pub(crate) fn flags(how: OpenHow) -> (OFlags, Mode) {
    let (made, private) = (Mode::from_raw_mode(0o666), Mode::from_raw_mode(0o600));
    match how.access {
        Access::Read => (FLAGS, Mode::empty()),
        Access::Write => (FLAGS | OFlags::RDWR, Mode::empty()),
        Access::Create => (FLAGS | OFlags::RDWR | OFlags::CREATE, made),
        Access::CreatePrivate => (FLAGS | OFlags::RDWR | OFlags::CREATE, private),
        Access::CreateNew => (FLAGS | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, made),
    }
}

/// Links followed in one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// How `openat2` resolves the path.
#[cfg(target_os = "linux")]
pub(crate) fn resolve(how: OpenHow) -> rustix::fs::ResolveFlags {
    use rustix::fs::ResolveFlags as Resolve;
    let links = match how.links {
        Links::Followed => Resolve::empty(),
        Links::Refused | Links::SameOwner => Resolve::NO_SYMLINKS,
    };
    Resolve::BENEATH | Resolve::NO_MAGICLINKS | links
}

/// Opens `path` beneath `directory`; may block.
pub(crate) fn open(directory: BorrowedFd<'_>, path: &CStr, how: OpenHow) -> io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    let (flags, mode) = flags(how);
    #[cfg(target_os = "linux")]
    match rustix::fs::openat2(directory, path, flags, mode, resolve(how)) {
        // Something was moved at this moment: the kernel cannot say whether `..` still leads within.
        Err(Errno::NOSYS | Errno::AGAIN) => {}
        // There is a link.
        Err(Errno::LOOP) if how.links == Links::SameOwner => {}
        done => return Ok(done?),
    }
    walk(directory, path, how)
}

/// [`open`] without `openat2`.
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
    // The directories from the root down to where we are; the root itself is not in it.
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
        let (flags, mode) = match last {
            true => (requested, mode),
            false => (FLAGS | OFlags::DIRECTORY, Mode::empty()),
        };
        match openat(here, &name, flags | OFlags::NOFOLLOW, mode) {
            Ok(fd) => {
                pending_owners.check(todo.len(), fd.as_fd())?;
                if last {
                    return Ok(fd);
                }
                above.push(fd);
            }
            // A link: ELOOP, or ENOTDIR when a directory was asked for.
            Err(error @ (Errno::LOOP | Errno::NOTDIR)) => {
                let Ok(target) = readlinkat(here, &name, Vec::new()) else {
                    return Err(error.into());
                };
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::LOOP.into());
                }
                let target = match how.links {
                    Links::Followed => target,
                    Links::SameOwner if how.access == Access::Read => {
                        let (target, owner) = read_link(here, &name)?;
                        pending_owners.0.push((todo.len(), owner));
                        target
                    }
                    Links::Refused | Links::SameOwner => return Err(Errno::LOOP.into()),
                };
                let mut inner = components(target.to_bytes())?;
                inner.append(&mut todo);
                todo = inner;
            }
            Err(error) => return Err(error.into()),
        }
    }
    // The path ended in `.` or `..`.
    if requested.contains(OFlags::EXCL) {
        return Err(Errno::EXIST.into());
    }
    let here = above.last().map_or(root, AsFd::as_fd);
    Ok(openat(here, c".", requested.difference(OFlags::CREATE), Mode::empty())?)
}

/// Links on the way that was gone, whose targets have not been reached: how many components were left
/// behind each, and who owns it.
#[derive(Default)]
struct PendingOwners(Vec<(usize, u32)>);

impl PendingOwners {
    /// With `left` components to go, `here` is what the links that end here lead to: `ELOOP` if it is
    /// not their owners'.
    fn check(&mut self, left: usize, here: BorrowedFd<'_>) -> io::Result<()> {
        while self.0.last().is_some_and(|(behind, _)| *behind == left) {
            let (_, owner) = self.0.pop().unwrap_or_default();
            if rustix::fs::fstat(here)?.st_uid != owner {
                return Err(Errno::LOOP.into());
            }
        }
        Ok(())
    }
}

/// Where a link leads to and whose it is, both of the same link.
#[cfg(target_os = "linux")]
fn read_link(here: BorrowedFd<'_>, name: &CStr) -> io::Result<(CString, u32)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let link = openat(here, name, flags, Mode::empty())?;
    // An empty name is the descriptor itself; it fails if what was a link is none any more.
    Ok((readlinkat(&link, c"", Vec::new())?, rustix::fs::fstat(&link)?.st_uid))
}

#[cfg(not(target_os = "linux"))]
fn read_link(_: BorrowedFd<'_>, _: &CStr) -> io::Result<(CString, u32)> {
    Err(Errno::LOOP.into())
}

/// The components of a relative path. A final slash asks for a directory: it leaves a `.`.
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

    /// A directory `root` with a secret beside it.
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

    /// Both ways agree on every path, also in the error, and in what they leave behind.
    #[test]
    #[cfg(target_os = "linux")]
    fn the_walk_does_as_the_kernel_does() {
        for access in
            [Access::Read, Access::Write, Access::Create, Access::CreatePrivate, Access::CreateNew]
        {
            for links in [Links::Refused, Links::Followed] {
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

    /// What became of opening `path` in a new tree, and what is beside and beneath its root then.
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
            // What is made beneath is well.
            let within = directory == "root/a";
            left.extend(names.into_iter().map(|name| match within && name == "made" {
                true => "made beneath".into(),
                false => name,
            }));
        }
        (outcome, left)
    }

    /// Each link is followed for its owner only. Needs root, to give files away.
    #[test]
    #[cfg(target_os = "linux")]
    fn links_are_their_owners() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root gives files away");
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
        let how = OpenHow { links: Links::SameOwner, access: Access::Read };
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
        // What it leads to is another's: the link's target, whatever lies between.
        own("a/file", bob);
        for path in ["a/link", "dir/link", "chain", "a/around"] {
            assert_eq!(read(path), None, "{path}");
        }
        for path in ["a/file", "dir/file", "slash/file"] {
            assert_eq!(read(path), within, "{path}: no link leads to the file itself");
        }
        // A link on the way to the link.
        own("a/link", bob);
        assert_eq!(read("a/link"), within);
        assert_eq!(read("chain"), None, "its link is not its owner's");
        // A directory.
        own("a", bob);
        for path in ["dir/file", "slash/file", "dir", "dir/"] {
            assert_eq!(read(path), None, "{path}");
        }
        own("self", bob);
        assert_eq!(read("self/a/file"), None, "to the root itself");
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
