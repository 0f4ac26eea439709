//! Opening a file beneath a directory, and never one outside of it.
//!
//! Linux does it in one call (`openat2`); elsewhere, and on kernels before 5.6, the path is walked
//! one component at a time, so that no link is ever followed by the kernel itself.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

use crate::{Access, OpenHow};

/// Close-on-exec; non-blocking so that a pipe somebody put there cannot stop us.
const FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// The flags and, for a file that may be made, the mode with which the last component is opened.
pub(crate) fn flags(how: OpenHow) -> (OFlags, Mode) {
    let made = Mode::from_raw_mode(0o666);
    match how.access {
        Access::Read => (FLAGS, Mode::empty()),
        Access::Write => (FLAGS | OFlags::RDWR, Mode::empty()),
        Access::Create => (FLAGS | OFlags::RDWR | OFlags::CREATE, made),
        Access::CreateNew => (FLAGS | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, made),
    }
}

/// Links followed in one path, as in the kernel.
const MOST_LINKS: usize = 40;

/// How `openat2` resolves the path.
#[cfg(target_os = "linux")]
pub(crate) fn resolve(how: OpenHow) -> rustix::fs::ResolveFlags {
    use rustix::fs::ResolveFlags as Resolve;
    let links = if how.follow_links { Resolve::empty() } else { Resolve::NO_SYMLINKS };
    Resolve::BENEATH | Resolve::NO_MAGICLINKS | links
}

/// Opens `path` beneath `directory`; may block.
pub(crate) fn open(directory: BorrowedFd<'_>, path: &CStr, how: OpenHow) -> io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    let (flags, mode) = flags(how);
    #[cfg(target_os = "linux")]
    match rustix::fs::openat2(directory, path, flags, mode, resolve(how)) {
        Err(Errno::NOSYS) => {}
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
    let (asked, mode) = flags(how);
    if asked.contains(OFlags::CREATE) && path.to_bytes().ends_with(b"/") {
        return Err(Errno::ISDIR.into());
    }
    let mut links = 0;
    // The directories from the root down to where we are; the root itself is not in it.
    let mut above: Vec<OwnedFd> = Vec::new();
    while let Some(name) = todo.pop_front() {
        if name.as_bytes() == b".." {
            above.pop().ok_or(Errno::XDEV)?;
            continue;
        }
        let here = above.last().map_or(root, AsFd::as_fd);
        let last = todo.is_empty();
        if last && name.as_bytes() == b"." {
            break;
        }
        let (flags, mode) = match last {
            true => (asked, mode),
            false => (FLAGS | OFlags::DIRECTORY, Mode::empty()),
        };
        match openat(here, &name, flags | OFlags::NOFOLLOW, mode) {
            Ok(fd) if last => return Ok(fd),
            Ok(fd) => above.push(fd),
            // A link: ELOOP, or ENOTDIR when a directory was asked for.
            Err(error @ (Errno::LOOP | Errno::NOTDIR)) => {
                let Ok(target) = readlinkat(here, &name, Vec::new()) else {
                    return Err(error.into());
                };
                links += 1;
                if !how.follow_links || links > MOST_LINKS {
                    return Err(Errno::LOOP.into());
                }
                let mut inner = components(target.to_bytes())?;
                inner.append(&mut todo);
                todo = inner;
            }
            Err(error) => return Err(error.into()),
        }
    }
    // The path ended in `.` or `..`.
    if asked.contains(OFlags::EXCL) {
        return Err(Errno::EXIST.into());
    }
    let here = above.last().map_or(root, AsFd::as_fd);
    Ok(openat(here, c".", asked.difference(OFlags::CREATE), Mode::empty())?)
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
        for access in [Access::Read, Access::Write, Access::Create, Access::CreateNew] {
            for follow_links in [false, true] {
                let how = OpenHow { follow_links, access };
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
