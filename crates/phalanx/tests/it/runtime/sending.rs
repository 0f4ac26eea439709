//! Sending files: all of them, in order, while the client reads.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::task::Poll;
use std::time::Duration;

use phalanx::fs::Dir;
use phalanx::net::{Bytes, FileTransfer, IoTimeout, Stream};
use phalanx::runtime::DriverChoice;

use phalanx_testkit::TIMEOUT;
use phalanx_testkit::bytes::pattern;
use phalanx_testkit::tcp::{listener, read_to_end, with_timeouts};

use crate::runtime::harness::{on_other_thread, one};
use crate::runtime::on_each_driver;

on_each_driver!(head_and_file, more_than_there_is, a_client_that_does_not_read);

const LENGTH: usize = 3_000_001;

/// A directory with a file.
fn tree() -> (tempfile::TempDir, Dir) {
    let tree = tempfile::tempdir().unwrap();
    fs::write(tree.path().join("file"), pattern(LENGTH)).unwrap();
    let dir = Dir::open(tree.path()).unwrap();
    (tree, dir)
}

fn head_and_file(driver: DriverChoice) {
    let (_tree, dir) = tree();
    let (listener, address) = listener();
    let received = one(driver, move |_| async move {
        let stream = Stream::connect(address, IoTimeout::after(TIMEOUT)).await.unwrap();
        let (peer, _) = listener.accept().unwrap();
        let reader = on_other_thread(move || read_to_end(&peer));
        let sender = async move {
            let file = dir.open_file(b"file", false).await.unwrap();
            let head = b"head".to_vec();
            let memory = head.as_ptr();
            let sent = stream
                .send_file(head, &file, 1, LENGTH as u64 - 1, FileTransfer::Copy, IoTimeout::NONE)
                .await;
            let sent = sent.unwrap();
            assert!(sent.head.is_empty() && sent.head.as_ptr() == memory, "its memory is returned");
            let mut at = 1 + sent.bytes;
            while at < LENGTH as u64 {
                let more = file.read_at(at, 100_000).await.unwrap();
                at += more.len() as u64;
                stream.write(Bytes::from(more), IoTimeout::NONE).await.unwrap();
            }
            // Beyond the end of the file nothing is sent; a range beyond 2⁶³ bytes is an error.
            let none = stream
                .send_file(Vec::new(), &file, at, 1, FileTransfer::Copy, IoTimeout::NONE)
                .await
                .unwrap();
            assert_eq!(none.bytes, 0);
            let wrong = stream
                .send_file(Vec::new(), &file, 1, u64::MAX, FileTransfer::Copy, IoTimeout::NONE)
                .await;
            assert_eq!(wrong.unwrap_err().kind(), ErrorKind::InvalidInput);
        };
        both(reader, sender).await
    });
    assert!(received == [&b"head"[..], &pattern(LENGTH)[1..]].concat());
}

/// Runs both futures at the same time. Returns the output of the first.
async fn both<T>(first: impl Future<Output = T>, second: impl Future<Output = ()>) -> T {
    let (mut first, mut second) = (std::pin::pin!(first), std::pin::pin!(second));
    let (mut done, mut result) = (false, None);
    std::future::poll_fn(|context| {
        if !done {
            done = second.as_mut().poll(context).is_ready();
        }
        if result.is_none()
            && let Poll::Ready(value) = first.as_mut().poll(context)
        {
            result = Some(value);
        }
        match (done, result.is_some()) {
            (true, true) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    })
    .await;
    result.expect("both are over")
}

fn more_than_there_is(driver: DriverChoice) {
    let (tree, dir) = tree();
    let (listener, address) = listener();
    one(driver, move |_| async move {
        let stream = Stream::connect(address, IoTimeout::after(TIMEOUT)).await.unwrap();
        let (peer, _) = listener.accept().unwrap();
        let file = dir.open_file(b"file", false).await.unwrap();
        let path = tree.path().join("file");
        File::options().write(true).open(path).unwrap().set_len(1000).unwrap();
        let sent = stream
            .send_file(Vec::new(), &file, 0, LENGTH as u64, FileTransfer::Copy, IoTimeout::NONE)
            .await;
        let sent = sent.unwrap().bytes as usize;
        assert!(sent <= 1000);
        let mut received = vec![0; sent];
        with_timeouts(peer).read_exact(&mut received).unwrap();
        assert!(received == pattern(sent));
    });
}

/// The timeout ends it, and the connection can be closed.
fn a_client_that_does_not_read(driver: DriverChoice) {
    let (tree, dir) = tree();
    File::options().write(true).open(tree.path().join("file")).unwrap().set_len(64 << 20).unwrap();
    let (listener, address) = listener();
    one(driver, move |_| async move {
        let stream = Stream::connect(address, IoTimeout::after(TIMEOUT)).await.unwrap();
        let (_peer, _) = listener.accept().unwrap();
        let file = dir.open_file(b"file", false).await.unwrap();
        // Cached, so that it is sent.
        for at in (0..64).map(|mib| mib << 20) {
            file.read_at(at, 1 << 20).await.unwrap();
        }
        let limit = IoTimeout::after(Duration::from_millis(300));
        match stream.send_file(Vec::new(), &file, 0, 64 << 20, FileTransfer::Copy, limit).await {
            Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut),
            Ok(sent) => {
                assert!(sent.bytes < 64 << 20, "no longer cached, or not reported as cached")
            }
        }
        drop(stream);
    });
}
