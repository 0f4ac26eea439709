//! Opening beneath a directory, and reading.

use std::ffi::CString;

use phalanx_driver::{Access, Done, File, OpenHow, Request};
use tempfile::TempDir;

use crate::disk::Disk;
use crate::harness::{Harness, pattern};

crate::on_all!(
    reads_are_short_only_at_the_end,
    a_large_read_is_whole,
    impossible_reads_fail,
    opening_stays_beneath,
    many_files_at_once,
    a_cancelled_read_completes,
);

crate::on_both!(a_pipe_does_not_block, a_pipe_has_no_offsets);

fn file(io: &Harness, bytes: &[u8]) -> (Disk, File) {
    let disk = io.disk();
    disk.write("file", bytes);
    let file = disk.open("file");
    (disk, file)
}

fn read(io: &mut Harness, file: &File, offset: u64, length: usize) -> Vec<u8> {
    // Old content and spare capacity must not show.
    let buffer = vec![9; 1000];
    let file = file.clone();
    let token = io.start(Request::ReadAt { file, buffer, offset, length });
    match io.finish(token).unwrap() {
        Done::Read(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

fn reads_are_short_only_at_the_end(io: &mut Harness) {
    let (_disk, file) = file(io, b"0123456789");
    assert_eq!(read(io, &file, 0, 10), b"0123456789");
    assert_eq!(read(io, &file, 0, 4), b"0123");
    assert_eq!(read(io, &file, 7, 100), b"789");
    assert_eq!(read(io, &file, 10, 5), b"");
    assert_eq!(read(io, &file, 1 << 40, 5), b"");
    assert_eq!(read(io, &file, 3, 0), b"");
}

fn a_large_read_is_whole(io: &mut Harness) {
    const LENGTH: usize = (6 << 20) + 123;
    let bytes = pattern(LENGTH);
    let (_disk, file) = file(io, &bytes);
    assert!(read(io, &file, 0, LENGTH) == bytes);
    assert!(read(io, &file, 1 << 20, 64 << 20) == bytes[1 << 20..]);
}

fn impossible_reads_fail(io: &mut Harness) {
    let (disk, file) = file(io, b"x");
    for (offset, length) in [(u64::MAX, 1), (i64::MAX as u64, 1), (0, usize::MAX)] {
        let file = file.clone();
        let token = io.start(Request::ReadAt { file, buffer: Vec::new(), offset, length });
        assert_eq!(io.error(token), libc::EINVAL);
    }
    disk.write("sub/x", b"");
    let directory = disk.open("sub");
    let token =
        io.start(Request::ReadAt { file: directory, buffer: Vec::new(), offset: 0, length: 1 });
    assert_eq!(io.error(token), libc::EISDIR);
}

fn open(io: &mut Harness, directory: &File, path: &str, follow_links: bool) -> Result<File, i32> {
    let request = Request::Open {
        directory: directory.clone(),
        path: CString::new(path).unwrap(),
        how: OpenHow { links: follow_links.into(), access: Access::Read },
    };
    let token = io.start(request);
    match io.finish(token) {
        Ok(Done::Opened(file)) => Ok(file),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.raw_os_error().unwrap()),
    }
}

fn opening_stays_beneath(io: &mut Harness) {
    let disk = io.disk();
    disk.write("secret", b"secret");
    disk.write("root/sub/file", b"within");
    disk.link("root/link", "sub/file");
    disk.link("root/out", "../secret");
    disk.link("root/absolute", "/etc/passwd");
    let directory = disk.open("root");

    let within = open(io, &directory, "sub/file", false).unwrap();
    assert_eq!(read(io, &within, 0, 100), b"within");
    if let Ok(fd) = within.fd() {
        assert!(rustix::io::fcntl_getfd(fd).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    }
    let sub = open(io, &directory, "sub", false).unwrap();
    assert!(open(io, &sub, "file", false).is_ok());
    assert_eq!(open(io, &sub, "../link", true).unwrap_err(), libc::EXDEV);

    assert_eq!(open(io, &directory, "missing", true).unwrap_err(), libc::ENOENT);
    assert_eq!(open(io, &directory, "sub/file/x", true).unwrap_err(), libc::ENOTDIR);
    assert_eq!(open(io, &directory, "link", false).unwrap_err(), libc::ELOOP);
    let followed = open(io, &directory, "link", true).unwrap();
    assert_eq!(read(io, &followed, 0, 100), b"within");
    for path in ["..", "../secret", "sub/../../secret", "/etc/passwd", "out", "absolute"] {
        assert_eq!(open(io, &directory, path, true).unwrap_err(), libc::EXDEV, "{path}");
        assert!(open(io, &directory, path, false).is_err(), "{path}");
    }
}

/// A directory with a `pipe`.
fn pipe() -> (TempDir, File) {
    let root = tempfile::tempdir().unwrap();
    let path = CString::new(root.path().join("pipe").to_str().unwrap()).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let directory = File::directory(root.path()).unwrap();
    (root, directory)
}

fn a_pipe_does_not_block(io: &mut Harness) {
    let (_root, directory) = pipe();
    assert!(open(io, &directory, "pipe", false).is_ok());
}

fn a_pipe_has_no_offsets(io: &mut Harness) {
    let (root, directory) = pipe();
    let path = root.path().join("pipe");
    let both = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let file = open(io, &directory, "pipe", false).unwrap();
    let (file, both) = ([file.clone(), file], File::from(both));
    for file in file {
        let token = io.start(Request::ReadAt { file, buffer: Vec::new(), offset: 0, length: 9 });
        assert_eq!(io.error(token), libc::ESPIPE);
    }
    let token = io.start(Request::WriteAt { file: both, bytes: "x".into(), offset: 7 });
    assert_eq!(io.error(token), libc::ESPIPE);
}

fn many_files_at_once(io: &mut Harness) {
    let disk = io.disk();
    for number in 0..100 {
        disk.write(&format!("many/{number}"), &pattern(1000 + number));
    }
    let directory = disk.open("many");
    let how = OpenHow::default();
    let opens: Vec<_> = (0..100)
        .map(|number| {
            let path = CString::new(number.to_string()).unwrap();
            io.start(Request::Open { directory: directory.clone(), path, how })
        })
        .collect();
    let mut reads = Vec::new();
    for open in opens {
        let Done::Opened(file) = io.finish(open).unwrap() else { panic!() };
        let buffer = Vec::new();
        reads.push(io.start(Request::ReadAt { file, buffer, offset: 10, length: 1 << 16 }));
    }
    for (number, read) in reads.into_iter().enumerate() {
        let Done::Read(bytes) = io.finish(read).unwrap() else { panic!() };
        assert!(bytes == pattern(1000 + number)[10..]);
    }
}

fn a_cancelled_read_completes(io: &mut Harness) {
    let (_disk, file) = file(io, &pattern(4 << 20));
    for _ in 0..20 {
        let file = file.clone();
        let buffer = Vec::new();
        let token = io.start(Request::ReadAt { file, buffer, offset: 0, length: 4 << 20 });
        io.driver.submit().unwrap();
        io.driver.cancel(token);
        match io.finish(token) {
            Ok(Done::Read(bytes)) => assert_eq!(bytes.len(), 4 << 20),
            Ok(other) => panic!("{other:?}"),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ECANCELED)),
        }
    }
}
