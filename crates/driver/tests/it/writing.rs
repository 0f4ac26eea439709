//! Writing files: all bytes or an error, and flushing them to the disk.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::symlink;
use std::process::Command;

use bytes::Bytes;
use phalanx_driver::{Access, Done, File, OpenHow, Request, SymlinkPolicy};
use rustix::process::{Resource, getrlimit};

use crate::harness::{Harness, pattern};

crate::on_both!(
    written_bytes_are_read,
    parts_are_continued,
    a_full_disk_is_an_error,
    impossible_writes_fail,
    a_file_size_limit,
    files_are_created_beneath,
    many_writes_at_once,
    a_cancelled_write_completes,
    a_cancelled_write_has_ended,
);

crate::on_all!(created_files_are_written_and_read, removed_files_are_gone);

fn removed_files_are_gone(io: &mut Harness) {
    let disk = io.disk();
    disk.write("there", b"before");
    disk.write("deep/inside", b"");
    disk.link("link", "there");
    let root = disk.open(".");
    let reader = open(io, &root, "there", Access::Read).unwrap();
    let remove = |name| root.remove(name).map_err(|error| error.raw_os_error().unwrap());
    assert_eq!(remove(c"there"), Ok(()));
    assert_eq!(open(io, &root, "there", Access::Read).unwrap_err(), libc::ENOENT);
    assert_eq!(reader.metadata().unwrap().length, 6, "an open file stays usable");
    assert_eq!(remove(c"there"), Err(libc::ENOENT));
    assert_eq!(remove(c"link"), Ok(()), "the link itself");
    assert_eq!(remove(c"deep"), Err(libc::EISDIR));
    assert_eq!(remove(c"deep/inside"), Err(libc::EINVAL));
    assert_eq!(remove(c"../out"), Err(libc::EINVAL));
}

fn created_files_are_written_and_read(io: &mut Harness) {
    let disk = io.disk();
    disk.write("there", b"before");
    disk.write("deep/inside", b"");
    disk.link("nowhere", "gone");
    let root = disk.open(".");
    let (create, new) = (Access::Create, Access::CreateNew);
    let created = open(io, &root, "deep/made", create).unwrap();
    write(io, &created, "after", 3).unwrap();
    write(io, &created, "and", 0).unwrap();
    assert_eq!(created.metadata().unwrap().length, 8);
    sync(io, &created, true).unwrap();
    let read = Request::ReadAt {
        file: open(io, &root, "deep/made", Access::Read).unwrap(),
        buffer: Vec::new(),
        offset: 0,
        length: 100,
    };
    let token = io.start(read);
    assert!(matches!(io.finish(token), Ok(Done::Read(bytes)) if bytes == b"andafter"));
    // Existing content is kept, or the open fails where the file must be new.
    let existing = open(io, &root, "there", create).unwrap();
    assert_eq!(existing.metadata().unwrap().length, 6);
    assert_eq!(open(io, &root, "there", new).unwrap_err(), libc::EEXIST);
    assert_eq!(open(io, &root, "nowhere", new).unwrap_err(), libc::EEXIST);
    assert_eq!(open(io, &root, "gone", Access::Write).unwrap_err(), libc::ENOENT);
    assert_eq!(open(io, &root, "deep", Access::Write).unwrap_err(), libc::EISDIR);
    assert_eq!(open(io, &root, "../out", create).unwrap_err(), libc::EXDEV);
    assert_eq!(open(io, &root, "there/in", create).unwrap_err(), libc::ENOTDIR);
    let reader = open(io, &root, "there", Access::Read).unwrap();
    assert_eq!(write(io, &reader, "no", 0), Err(libc::EBADF));
}

fn new_file() -> (tempfile::NamedTempFile, File) {
    let named = tempfile::NamedTempFile::new().unwrap();
    let file = named.reopen().unwrap().into();
    (named, file)
}

fn write(io: &mut Harness, file: &File, bytes: impl Into<Bytes>, offset: u64) -> Result<(), i32> {
    let file = file.clone();
    let token = io.start(Request::WriteAt { file, bytes: bytes.into(), offset });
    match io.finish(token) {
        Ok(Done::Written) => Ok(()),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.raw_os_error().unwrap_or_else(|| panic!("{error}"))),
    }
}

fn sync(io: &mut Harness, file: &File, data_only: bool) -> Result<(), i32> {
    let token = io.start(Request::Sync { file: file.clone(), data_only });
    match io.finish(token) {
        Ok(Done::Synced) => Ok(()),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.raw_os_error().unwrap_or_else(|| panic!("{error}"))),
    }
}

fn written_bytes_are_read(io: &mut Harness) {
    let (named, file) = new_file();
    write(io, &file, &b"0123456789"[..], 0).unwrap();
    write(io, &file, &b"ab"[..], 4).unwrap();
    write(io, &file, &b"far"[..], 12).unwrap();
    write(io, &file, Bytes::new(), 99).unwrap();
    assert_eq!(fs::read(named.path()).unwrap(), b"0123ab6789\0\0far");
    for data_only in [true, false] {
        sync(io, &file, data_only).unwrap();
    }
    let large = pattern((6 << 20) + 123);
    write(io, &file, large.clone(), 1).unwrap();
    assert!(fs::read(named.path()).unwrap()[1..] == large);
    // A directory flushes its names.
    let root = tempfile::tempdir().unwrap();
    sync(io, &fs::File::open(root.path()).unwrap().into(), false).unwrap();
}

/// The kernel writes at most 2 GiB in one call. This memory is never accessed.
#[cfg(target_pointer_width = "64")]
fn parts_are_continued(io: &mut Harness) {
    let sink = fs::File::options().write(true).open("/dev/null").unwrap();
    write(io, &sink.into(), vec![0; 5 << 30], 0).unwrap();
}

fn a_full_disk_is_an_error(io: &mut Harness) {
    if !cfg!(target_os = "linux") {
        return eprintln!("left out: this system has no /dev/full");
    }
    let full = File::from(fs::File::options().write(true).open("/dev/full").unwrap());
    assert_eq!(write(io, &full, &b"x"[..], 0), Err(libc::ENOSPC));
}

fn impossible_writes_fail(io: &mut Harness) {
    let (named, file) = new_file();
    for (offset, bytes) in [(u64::MAX, "x"), (i64::MAX as u64, "x"), (u64::MAX, "")] {
        assert_eq!(write(io, &file, bytes, offset), Err(libc::EINVAL));
    }
    // At the limit of this file system, a plain write behaves in the same way.
    let offset = i64::MAX as u64 - 1;
    let result = fs::File::options().write(true).open(named.path()).unwrap().write_at(b"x", offset);
    let result = result.map(drop).map_err(|error| error.raw_os_error().unwrap());
    assert_eq!(write(io, &file, &b"x"[..], offset), result);
    let reader = File::from(fs::File::open(named.path()).unwrap());
    assert_eq!(write(io, &reader, &b"x"[..], 0), Err(libc::EBADF));
    let (pipe, _end) = std::io::pipe().unwrap();
    assert_eq!(sync(io, &File::from(std::os::fd::OwnedFd::from(pipe)), true), Err(libc::EINVAL));
}

/// At a file size limit, the kernel writes a part and refuses the rest. The part is written, and the request
/// fails. The limit applies to a whole process, so another process runs this.
fn a_file_size_limit(io: &mut Harness) {
    const LIMITED: &str = "PHALANX_TEST_FILE_LIMIT";
    if std::env::var_os(LIMITED).is_none() {
        let script = r#"trap '' XFSZ; ulimit -f 1; exec "$0" --exact "$1""#;
        let name = format!("writing::a_file_size_limit::{}", io.driver.name());
        let mut limited = Command::new("sh");
        limited.args(["-c", script]).arg(std::env::current_exe().unwrap()).arg(name);
        let output = limited.env(LIMITED, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
        return;
    }
    let limit = getrlimit(Resource::Fsize).current.expect("a limit");
    let (named, file) = new_file();
    assert_eq!(write(io, &file, pattern(100), limit - 40), Err(libc::EFBIG));
    assert_eq!(named.path().metadata().unwrap().len(), limit);
    assert!(fs::read(named.path()).unwrap()[limit as usize - 40..] == pattern(100)[..40]);
    assert_eq!(write(io, &file, &b"x"[..], limit), Err(libc::EFBIG));
    write(io, &file, &b"x"[..], limit - 1).unwrap();
}

pub(crate) fn open(
    io: &mut Harness,
    directory: &File,
    path: &str,
    access: Access,
) -> Result<File, i32> {
    let (directory, path) = (directory.clone(), CString::new(path).unwrap());
    let how = OpenHow { links: SymlinkPolicy::Follow, access };
    let token = io.start(Request::Open { directory, path, how });
    match io.finish(token) {
        Ok(Done::Opened(file)) => Ok(file),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.raw_os_error().unwrap()),
    }
}

fn files_are_created_beneath(io: &mut Harness) {
    let outside = tempfile::tempdir().unwrap();
    let root = outside.path().join("root");
    fs::create_dir_all(root.join("sub")).unwrap();
    fs::write(root.join("old"), "kept").unwrap();
    symlink("../made", root.join("out")).unwrap();
    symlink("sub/linked", root.join("link")).unwrap();
    let directory = File::from(fs::File::open(&root).unwrap());

    assert_eq!(open(io, &directory, "new", Access::Write).unwrap_err(), libc::ENOENT);
    for path in ["new", "sub/new", "link"] {
        let file = open(io, &directory, path, Access::Create).unwrap();
        write(io, &file, path.to_owned(), 0).unwrap();
        assert_eq!(fs::read_to_string(root.join(path)).unwrap(), path);
    }
    assert!(root.join("sub/linked").exists());
    let old = open(io, &directory, "old", Access::Create).unwrap();
    write(io, &old, &b"!"[..], 4).unwrap();
    assert_eq!(fs::read(root.join("old")).unwrap(), b"kept!");
    assert!(open(io, &directory, "old", Access::Write).is_ok());
    for existing_name in ["old", "link", "out", "sub"] {
        assert_eq!(
            open(io, &directory, existing_name, Access::CreateNew).unwrap_err(),
            libc::EEXIST
        );
    }
    assert!(open(io, &directory, "newest", Access::CreateNew).is_ok());
    assert_eq!(open(io, &directory, "sub", Access::Write).unwrap_err(), libc::EISDIR);
    for path in ["../made", "out", "sub/../../made", "/made"] {
        for access in [Access::Create, Access::CreateNew] {
            assert!(open(io, &directory, path, access).is_err(), "{path}");
        }
        assert_eq!(open(io, &directory, path, Access::Create).unwrap_err(), libc::EXDEV);
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1, "nothing is created outside");
}

fn many_writes_at_once(io: &mut Harness) {
    let (named, file) = new_file();
    let bytes = Bytes::from(pattern(100_000));
    let writes: Vec<_> = (0..100)
        .map(|part| {
            let (file, from) = (file.clone(), part * 1000);
            let bytes = bytes.slice(from..from + 1000);
            io.start(Request::WriteAt { file, bytes, offset: from as u64 })
        })
        .collect();
    for write in writes {
        assert!(matches!(io.finish(write).unwrap(), Done::Written));
    }
    sync(io, &file, true).unwrap();
    assert!(fs::read(named.path()).unwrap() == bytes);
}

fn a_cancelled_write_completes(io: &mut Harness) {
    let bytes = Bytes::from(pattern(4 << 20));
    let (_named, file) = new_file();
    for _ in 0..20 {
        let (file, bytes) = (file.clone(), bytes.clone());
        let token = io.start(Request::WriteAt { file, bytes, offset: 0 });
        io.driver.submit().unwrap();
        io.driver.cancel(token);
        match io.finish(token) {
            Ok(Done::Written) => (),
            Ok(other) => panic!("{other:?}"),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ECANCELED)),
        }
    }
}

/// When a cancelled write has completed, no thread writes any more, so no thread owns its bytes.
fn a_cancelled_write_has_ended(io: &mut Harness) {
    let (_named, file) = new_file();
    let bytes = Bytes::from(vec![1; 8 << 20]);
    for round in 0..10 {
        let writes: Vec<_> = (0..6)
            .map(|_| {
                let (file, bytes) = (file.clone(), bytes.clone());
                io.start(Request::WriteAt { file, bytes, offset: 0 })
            })
            .collect();
        io.driver.submit().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(round / 3));
        writes.iter().for_each(|write| io.driver.cancel(*write));
        for write in writes {
            if let Err(error) = io.finish(write) {
                assert_eq!(error.raw_os_error(), Some(libc::ECANCELED));
            }
        }
        assert!(bytes.is_unique(), "a thread still writes");
    }
}
