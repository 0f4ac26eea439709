//! Writing and flushing files in operations.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::time::Duration;

use phalanx::fs::Dir;
use phalanx::runtime::DriverChoice;
use phalanx::{Session, join, sleep};

use phalanx_testkit::bytes::pattern;

use crate::runtime::harness::one;
use crate::runtime::on_each_driver;

on_each_driver!(written_and_read_again, made_beneath_only, many_writers, a_session_ends_its_writes);

fn written_and_read_again(driver: DriverChoice) {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::open(home.path()).unwrap();
    let content = pattern(3 << 20);
    let expected = content.clone();
    one(driver, move |_| async move {
        let file = dir.create(b"data", false).await.unwrap();
        file.write_at(7, content.clone()).await.unwrap();
        file.write_at(0, &b"1234567"[..]).await.unwrap();
        file.write_at(3, Vec::new()).await.unwrap();
        assert_eq!(file.metadata().unwrap().length, 7 + content.len() as u64);
        assert!(file.read_at(7, content.len()).await.unwrap() == content);
        file.sync_data().await.unwrap();
        file.sync_all().await.unwrap();
        dir.sync().await.unwrap();
        // Existing content is kept; a file opened for reading cannot be written.
        let reopened = dir.create(b"data", false).await.unwrap();
        assert_eq!(reopened.read_at(0, 7).await.unwrap(), b"1234567");
        let reader = dir.open_file(b"data", false).await.unwrap();
        assert!(reader.write_at(0, &b"x"[..]).await.is_err());
        let error = file.write_at(u64::MAX, &b"x"[..]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
    assert!(fs::read(home.path().join("data")).unwrap()[7..] == expected);
}

fn made_beneath_only(driver: DriverChoice) {
    let outside = tempfile::tempdir().unwrap();
    let root = outside.path().join("root");
    fs::create_dir(&root).unwrap();
    symlink("../made", root.join("out")).unwrap();
    let dir = Dir::open(&root).unwrap();
    one(driver, move |_| async move {
        let kind = |error: std::io::Error| error.kind();
        assert_eq!(kind(dir.open_write(b"new", false).await.unwrap_err()), ErrorKind::NotFound);
        dir.create_new(b"new").await.unwrap();
        dir.open_write(b"new", false).await.unwrap();
        assert_eq!(kind(dir.create_new(b"new").await.unwrap_err()), ErrorKind::AlreadyExists);
        assert_eq!(kind(dir.create_new(b"out").await.unwrap_err()), ErrorKind::AlreadyExists);
        for path in [&b"out"[..], b"../made", b"/made"] {
            let refused = kind(dir.create(path, true).await.unwrap_err());
            assert_eq!(refused, ErrorKind::CrossesDevices, "{path:?}");
        }
        assert_eq!(kind(dir.create(b"a\0b", true).await.unwrap_err()), ErrorKind::InvalidInput);
    });
    assert!(!outside.path().join("made").exists());
}

fn many_writers(driver: DriverChoice) {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::open(home.path()).unwrap();
    one(driver, move |stage| async move {
        let file = dir.create(b"data", false).await.unwrap();
        let content = bytes(&pattern(256_000));
        let calls: Vec<_> = (0..64usize)
            .map(|n| {
                let (file, part) = (file.clone(), content.slice(n * 4000..(n + 1) * 4000));
                stage.call(move |_| async move {
                    file.write_at(n as u64 * 4000, part).await.unwrap();
                    file.sync_data().await.unwrap();
                })
            })
            .collect();
        for written in join(calls).await {
            written.unwrap();
        }
        assert!(file.read_at(0, 300_000).await.unwrap() == content);
    });
}

fn bytes(of: &[u8]) -> phalanx::net::Bytes {
    phalanx::net::Bytes::copy_from_slice(of)
}

/// The session's end waits until the kernel has released the bytes. A part of them may be written.
fn a_session_ends_its_writes(driver: DriverChoice) {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::open(home.path()).unwrap();
    let path = home.path().join("data");
    one(driver, move |stage| async move {
        let file = dir.create(b"data", false).await.unwrap();
        let content = bytes(&pattern(1 << 20));
        for round in 0..20u64 {
            let session = Session::new();
            for part in 0..4u64 {
                let (file, content) = (file.clone(), content.clone());
                let writing = move |_| async move {
                    file.write_at(part << 20, content).await.unwrap();
                    file.sync_data().await.unwrap();
                };
                session.scope(|| stage.dispatch(writing)).unwrap();
            }
            sleep(Duration::from_micros(100 * round)).await;
            session.end().await;
            assert_eq!(session.operations(), 0);
        }
        let found = fs::read(path).unwrap();
        let mut of_pattern = found.chunks(1 << 20).flat_map(|part| part.iter().zip(&content));
        assert!(of_pattern.all(|(found, written)| found == written || *found == 0));
    });
}
