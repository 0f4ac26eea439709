//! Files: opened beneath a directory only, and read completely, from the page cache or from the disk.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;

use phalanx::fs::{Dir, FileKind};
use phalanx::join;
use phalanx::runtime::DriverChoice;
use rustix::fs::{Advice, CWD, FileType, Mode, fadvise, mknodat};
use tempfile::TempDir;

use phalanx_testkit::bytes::pattern;

use crate::runtime::harness::one;
use crate::runtime::on_each_driver;

on_each_driver!(
    beneath,
    links,
    reads,
    lengths_beyond_the_memory,
    from_the_disk,
    far_into_a_file,
    metadata,
    special_files_are_not_opened
);

fn tree() -> TempDir {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    fs::create_dir_all(outside.path().join("root/a/b")).unwrap();
    fs::write(outside.path().join("root/a/file"), "within").unwrap();
    outside
}

fn root(tree: &Path) -> Dir {
    Dir::open(&tree.join("root")).unwrap()
}

fn beneath(driver: DriverChoice) {
    let tree = tree();
    let dir = root(tree.path());
    let secret = tree.path().join("secret").into_os_string().into_encoded_bytes();
    assert_eq!(Dir::open(&tree.path().join("x")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(
        Dir::open(&tree.path().join("secret")).unwrap_err().kind(),
        ErrorKind::NotADirectory
    );
    one(driver, move |_| async move {
        for path in ["a/file", "a//file", "./a/./file", "a/b/../file"] {
            let file = dir.open_file(path.as_bytes(), false).await.expect(path);
            assert_eq!(file.read_at(0, 100).await.unwrap(), b"within");
        }
        for path in [&b"../secret"[..], b"a/../../secret", b"..", b"/etc/passwd", &secret] {
            for follow in [false, true] {
                let error = dir.open_file(path, follow).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::CrossesDevices, "{path:?}");
            }
        }
        let table: [(&[u8], ErrorKind); 5] = [
            (b"missing", ErrorKind::NotFound),
            (b"a/missing/x", ErrorKind::NotFound),
            (b"a/file/x", ErrorKind::NotADirectory),
            (b"a\0b", ErrorKind::InvalidInput),
            (b"", ErrorKind::NotFound),
        ];
        for (path, kind) in table {
            assert_eq!(dir.open_file(path, true).await.unwrap_err().kind(), kind, "{path:?}");
        }
    });
}

fn links(driver: DriverChoice) {
    let tree = tree();
    let at = |name: &str| tree.path().join("root").join(name);
    symlink("a/file", at("in")).unwrap();
    symlink("a", at("dir")).unwrap();
    symlink("../secret", at("out")).unwrap();
    symlink("/etc/passwd", at("absolute")).unwrap();
    symlink("loop", at("loop")).unwrap();
    let dir = root(tree.path());
    one(driver, move |_| async move {
        for path in ["in", "dir/file"] {
            let file = dir.open_file(path.as_bytes(), true).await.expect(path);
            assert_eq!(file.read_at(0, 100).await.unwrap(), b"within");
        }
        for path in ["out", "absolute"] {
            let error = dir.open_file(path.as_bytes(), true).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CrossesDevices, "{path}");
        }
        let errno = |error: std::io::Error| error.raw_os_error();
        let too_many = Some(rustix::io::Errno::LOOP.raw_os_error());
        assert_eq!(errno(dir.open_file(b"loop", true).await.unwrap_err()), too_many);
        for path in ["in", "dir/file", "out", "absolute", "loop"] {
            let error = dir.open_file(path.as_bytes(), false).await.unwrap_err();
            assert_eq!(errno(error), too_many, "{path}: no links at all");
        }
    });
}

fn reads(driver: DriverChoice) {
    let tree = tree();
    let content = pattern(300_001);
    fs::write(tree.path().join("root/data"), &content).unwrap();
    let dir = root(tree.path());
    one(driver, move |_| async move {
        let file = dir.open_file(b"data", false).await.unwrap();
        let whole = content.len();
        for (offset, length) in
            [(0, 0), (0, 1), (0, whole), (1, 4096), (131_071, 3), (whole - 1, 1), (7, 250_000)]
        {
            let read = file.read_at(offset as u64, length).await.unwrap();
            assert!(read == content[offset..offset + length], "{length} at {offset}");
        }
        // Fewer bytes only at the end of the file.
        assert!(file.read_at(0, whole + 5).await.unwrap() == content);
        assert_eq!(file.read_at(whole as u64 - 2, 100).await.unwrap(), content[whole - 2..]);
        assert_eq!(file.read_at(whole as u64, 100).await.unwrap(), b"");
        assert_eq!(file.read_at(whole as u64 + 999, 100).await.unwrap(), b"");
        // A clone shares the file, and outlives it.
        let clone = file.clone();
        drop(file);
        assert_eq!(clone.read_at(0, 4).await.unwrap(), content[..4]);
    });
}

fn lengths_beyond_the_memory(driver: DriverChoice) {
    let tree = tree();
    let dir = root(tree.path());
    one(driver, move |_| async move {
        let file = dir.open_file(b"a/file", false).await.unwrap();
        let huge = 1 << 62;
        assert_eq!(file.read_at(0, huge).await.unwrap_err().kind(), ErrorKind::OutOfMemory);
        assert_eq!(file.read_at_blocking(0, huge).unwrap_err().kind(), ErrorKind::OutOfMemory);
        // Reserved, and not touched.
        let long = 64 << 20;
        assert_eq!(file.read_at(0, long).await.unwrap(), b"within");
        assert_eq!(file.read_at_blocking(2, long).unwrap(), b"thin");
    });
}

/// Data that is not in the page cache, or partly, is read completely as well.
fn from_the_disk(driver: DriverChoice) {
    let tree = tree();
    let content = pattern(6 << 20);
    let path = tree.path().join("root/data");
    fs::write(&path, &content).unwrap();
    let written = fs::File::open(&path).unwrap();
    let evict = move |from: u64, length: u64| {
        // The kernel can only drop clean pages.
        written.sync_all().unwrap();
        fadvise(&written, from, std::num::NonZero::new(length), Advice::DontNeed).unwrap();
    };
    let dir = root(tree.path());
    one(driver, move |stage| async move {
        let file = dir.open_file(b"data", false).await.unwrap();
        evict(0, 6 << 20);
        assert!(file.read_at(0, content.len()).await.unwrap() == content, "nothing is cached");
        for hole in [0, 1 << 20, 3 << 20] {
            evict(hole, 1 << 20);
            assert!(file.read_at(0, content.len()).await.unwrap() == content, "a hole at {hole}");
        }
        // Many reads at once.
        evict(0, 6 << 20);
        let calls: Vec<_> = (0..48)
            .map(|n: u64| {
                let file = file.clone();
                stage
                    .call(move |_| async move { file.read_at(n * 131_072, 131_072).await.unwrap() })
            })
            .collect();
        for (n, read) in join(calls).await.into_iter().enumerate() {
            assert!(read.unwrap() == content[n * 131_072..(n + 1) * 131_072], "part {n}");
        }
    });
}

fn far_into_a_file(driver: DriverChoice) {
    let tree = tree();
    let path = tree.path().join("root/sparse");
    let far = (5 << 30) + 12_345;
    let file = fs::File::create(&path).unwrap();
    std::os::unix::fs::FileExt::write_at(&file, b"far away", far).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    let dir = root(tree.path());
    one(driver, move |_| async move {
        let file = dir.open_file(b"sparse", false).await.unwrap();
        for _ in ["from the disk", "from memory"] {
            assert_eq!(file.read_at(far - 2, 100).await.unwrap(), b"\0\0far away");
        }
        assert_eq!(file.metadata().unwrap().length, far + 8);
        assert_eq!(file.read_at(1 << 40, 10).await.unwrap(), b"");
        // Impossible offsets are an error or the end of the file.
        for offset in [i64::MAX as u64 - 1, i64::MAX as u64, 1 << 63, u64::MAX - 1, u64::MAX] {
            match file.read_at(offset, 10).await {
                Ok(read) => assert!(read.is_empty()),
                Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidInput, "{offset:#x}"),
            }
        }
    });
}

fn metadata(driver: DriverChoice) {
    let tree = tree();
    let then = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_000);
    let path = tree.path().join("root/a/file");
    fs::File::options().write(true).open(&path).unwrap().set_modified(then).unwrap();
    let dir = root(tree.path());
    one(driver, move |_| async move {
        let file = dir.open_file(b"a/file", false).await.unwrap();
        let known = file.metadata().unwrap();
        assert_eq!((known.kind, known.length), (FileKind::File, 6));
        assert_eq!(known.modified_ns, 1_000_000_000_123_456_000);
        assert!(known.changed_ns > known.modified_ns, "the time when the other time was set");
        assert_eq!(dir.open_file(b"a/file", false).await.unwrap().metadata().unwrap(), known);
        // This is the open file, not the one that has its name now.
        fs::write(path.with_extension("new"), "another").unwrap();
        fs::rename(path.with_extension("new"), &path).unwrap();
        assert_eq!(file.metadata().unwrap().inode, known.inode);
        let another = dir.open_file(b"a/file", false).await.unwrap().metadata().unwrap();
        assert!(another.inode != known.inode && another.device == known.device);
        assert_eq!(file.read_at(0, 100).await.unwrap(), b"within");
    });
}

fn special_files_are_not_opened(driver: DriverChoice) {
    let tree = tree();
    let pipe = tree.path().join("root/pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let dir = root(tree.path());
    one(driver, move |_| async move {
        let directory = dir.open_file(b"a", false).await.unwrap();
        assert_eq!(directory.metadata().unwrap().kind, FileKind::Directory);
        assert_eq!(directory.read_at(0, 10).await.unwrap_err().kind(), ErrorKind::IsADirectory);
        // The pipe has no writer: opening it for reading would block.
        let pipe = dir.open_file(b"pipe", false).await.unwrap();
        assert_eq!(pipe.metadata().unwrap().kind, FileKind::Other);
    });
}
