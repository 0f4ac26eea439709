//! Streams: exact reads, vectored writes, addresses, options, and owned halves.

use std::future::{Future, poll_fn};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use phalanx::CallError;
use phalanx::net::{Bytes, IoTimeout, Keepalive, ReuniteError, Stream};
use phalanx::runtime::DriverChoice;

use phalanx_testkit::TIMEOUT;
use phalanx_testkit::bytes::pattern;
use phalanx_testkit::tcp::{listener, read_to_end, with_timeouts};

use crate::runtime::harness::{on_other_thread, one};
use crate::runtime::on_each_driver;

on_each_driver!(
    exact_reads_take_no_more,
    an_exact_read_of_too_little,
    one_timeout_for_an_exact_read,
    many_parts,
    bytes_are_sent_now_unless_a_write_waits,
    addresses_and_options,
    corked_bytes_arrive_with_the_end,
    halves_in_two_operations,
    a_dropped_write_half_ends_the_stream,
    halves_are_reunited,
    two_reads_at_once,
    nothing_is_skipped,
    a_write_completes_at_once,
    a_write_with_many_requests_in_flight,
    an_operation_that_only_writes_lets_others_run,
);

async fn pair() -> (Stream, TcpStream) {
    let (listener, address) = listener();
    let stream = Stream::connect(address, IoTimeout::after(TIMEOUT)).await.unwrap();
    (stream, with_timeouts(listener.accept().unwrap().0))
}

fn exact_reads_take_no_more(driver: DriverChoice) {
    one(driver, |_| async {
        const LENGTH: usize = 200_000;
        let (stream, mut peer) = pair().await;
        let writer = std::thread::spawn(move || peer.write_all(&pattern(LENGTH)).unwrap());
        let mut received = Vec::new();
        for length in [1, 2, 3, 0, 10_000, 1, 100_000, 5].into_iter().cycle() {
            let mut part = vec![0; length.min(LENGTH - received.len())];
            stream.read_exact(&mut part, IoTimeout::after(TIMEOUT)).await.unwrap();
            received.extend_from_slice(&part);
            if received.len() == LENGTH {
                break;
            }
            // Later bytes stay available for other reads.
            if length == 5 {
                stream.read(&mut received, IoTimeout::after(TIMEOUT)).await.unwrap();
            }
        }
        assert!(received == pattern(LENGTH));
        on_other_thread(|| writer.join().unwrap()).await;
    });
}

fn an_exact_read_of_too_little(driver: DriverChoice) {
    one(driver, |_| async {
        let (stream, mut peer) = pair().await;
        peer.write_all(b"abc").unwrap();
        drop(peer);
        let error = stream.read_exact(&mut [0; 4], IoTimeout::after(TIMEOUT)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert_eq!(error.to_string(), "the stream ended after 3 of 4 bytes");
    });
}

/// Bytes that keep coming do not extend the limit.
fn one_timeout_for_an_exact_read(driver: DriverChoice) {
    one(driver, |_| async {
        let (stream, mut peer) = pair().await;
        let writer = std::thread::spawn(move || {
            while peer.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let limit = IoTimeout::after(Duration::from_millis(200));
        let error = stream.read_exact(&mut vec![0; 1 << 30], limit).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        drop(stream);
        on_other_thread(|| writer.join().unwrap()).await;
    });
}

fn many_parts(driver: DriverChoice) {
    one(driver, |_| async {
        let (stream, peer) = pair().await;
        let bytes = Bytes::from(pattern(1_000_000));
        let parts: Vec<_> = (0..1000).map(|at| bytes.slice(1000 * at..1000 * (at + 1))).collect();
        let reader = std::thread::spawn(move || read_to_end(&peer));
        stream.write_vectored(parts, IoTimeout::after(TIMEOUT)).await.unwrap();
        stream.write_vectored([], IoTimeout::after(TIMEOUT)).await.unwrap();
        stream.write_vectored([Bytes::from("end")], IoTimeout::after(TIMEOUT)).await.unwrap();
        drop(stream);
        let received = on_other_thread(|| reader.join().unwrap()).await;
        assert!(received == [&bytes[..], b"end"].concat());
    });
}

fn bytes_are_sent_now_unless_a_write_waits(driver: DriverChoice) {
    one(driver, |_| async {
        let (stream, peer) = pair().await;
        assert_eq!(stream.send_now(b"first").unwrap(), 5);
        // More than the sockets' buffers hold.
        let bytes = pattern(64 << 20);
        let mut write = pin!(stream.write(bytes.clone(), IoTimeout::after(TIMEOUT)));
        assert!(poll_fn(|task| Poll::Ready(write.as_mut().poll(task).is_pending())).await);
        assert_eq!(stream.send_now(b"within").unwrap(), 0);
        let reader = std::thread::spawn(move || read_to_end(&peer));
        write.await.unwrap();
        assert_eq!(stream.send_now(b"last").unwrap(), 4);
        stream.shutdown(Shutdown::Write).unwrap();
        let received = on_other_thread(|| reader.join().unwrap()).await;
        assert!(received == [b"first", &bytes[..], b"last"].concat());
    });
}

fn addresses_and_options(driver: DriverChoice) {
    one(driver, |_| async {
        let (stream, peer) = pair().await;
        assert_eq!(stream.local_addr().unwrap(), peer.peer_addr().unwrap());
        assert_eq!(stream.peer_addr().unwrap(), peer.local_addr().unwrap());
        stream.set_nodelay(false).unwrap();
        stream.set_nodelay(true).unwrap();
        let (idle, interval) = (Duration::from_secs(60), Duration::from_secs(10));
        stream.set_keepalive(Some(Keepalive { idle, interval, count: 3 })).unwrap();
        stream.set_keepalive(None).unwrap();
        let (read, write) = stream.into_split();
        assert_eq!(read.local_addr().unwrap(), write.local_addr().unwrap());
        assert_eq!(read.peer_addr().unwrap(), write.peer_addr().unwrap());
        write.as_ref().set_nodelay(false).unwrap();
    });
}

fn corked_bytes_arrive_with_the_end(driver: DriverChoice) {
    one(driver, |_| async {
        for shut_down in [false, true] {
            let (stream, peer) = pair().await;
            stream.set_cork(true).unwrap();
            stream.write(b"last".to_vec(), IoTimeout::after(TIMEOUT)).await.unwrap();
            let reader = std::thread::spawn(move || read_to_end(&peer));
            if shut_down {
                stream.shutdown(Shutdown::Write).unwrap();
                assert_eq!(on_other_thread(|| reader.join().unwrap()).await, b"last");
            } else {
                drop(stream);
                assert_eq!(on_other_thread(|| reader.join().unwrap()).await, b"last");
            }
        }
    });
}

fn halves_in_two_operations(driver: DriverChoice) {
    one(driver, |stage| async move {
        const LENGTH: usize = 1_000_000;
        let (stream, peer) = pair().await;
        let (read, write) = stream.into_split();
        let mut to = peer.try_clone().unwrap();
        let sender = std::thread::spawn(move || to.write_all(&pattern(LENGTH)).unwrap());
        let receiver = std::thread::spawn(move || {
            let mut received = vec![0; LENGTH];
            (&peer).read_exact(&mut received).unwrap();
            received
        });
        let reading = stage.call(move |_| async move {
            let mut received = vec![0; LENGTH];
            read.read_exact(&mut received, IoTimeout::after(TIMEOUT)).await.unwrap();
            (received, read)
        });
        let writing = stage.call(move |_| async move {
            write.write(pattern(LENGTH), IoTimeout::after(TIMEOUT)).await.unwrap();
            write
        });
        let ((received, _read), _write) = (reading.await.unwrap(), writing.await.unwrap());
        assert!(received == pattern(LENGTH));
        assert!(on_other_thread(|| receiver.join().unwrap()).await == pattern(LENGTH));
        sender.join().unwrap();
    });
}

fn a_dropped_write_half_ends_the_stream(driver: DriverChoice) {
    one(driver, |_| async {
        for explicit in [false, true] {
            let (stream, mut peer) = pair().await;
            let (read, write) = stream.into_split();
            write.write(b"all".to_vec(), IoTimeout::after(TIMEOUT)).await.unwrap();
            if explicit {
                write.shutdown().unwrap();
                let error =
                    write.write(b"x".to_vec(), IoTimeout::after(TIMEOUT)).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::BrokenPipe);
            }
            drop(write);
            let reader = peer.try_clone().unwrap();
            assert_eq!(on_other_thread(move || read_to_end(&reader)).await, b"all");
            // The other direction is still open.
            peer.write_all(b"answer").unwrap();
            let mut answer = [0; 6];
            read.read_exact(&mut answer, IoTimeout::after(TIMEOUT)).await.unwrap();
            assert_eq!(&answer, b"answer");
        }
    });
}

fn halves_are_reunited(driver: DriverChoice) {
    one(driver, |_| async {
        let ((stream, mut peer), (other, _other_peer)) = (pair().await, pair().await);
        let (read, write) = stream.into_split();
        let (other_read, other_write) = other.into_split();
        let ReuniteError(read, other_write) = read.reunite(other_write).unwrap_err();
        let other = other_read.reunite(other_write).unwrap();
        other.write(b"x".to_vec(), IoTimeout::after(TIMEOUT)).await.unwrap();
        // Reuniting does not shut the write direction down.
        let stream = read.reunite(write).unwrap();
        stream.write(b"whole".to_vec(), IoTimeout::after(TIMEOUT)).await.unwrap();
        let mut bytes = [0; 5];
        peer.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"whole");
    });
}

fn two_reads_at_once(driver: DriverChoice) {
    one(driver, |stage| async move {
        let (stream, mut peer) = pair().await;
        let (read, _write) = stream.into_split();
        let read = Arc::new(read);
        let first = stage.call({
            let read = read.clone();
            move |_| async move {
                let mut bytes = [0; 3];
                read.read_exact(&mut bytes, IoTimeout::after(TIMEOUT)).await.unwrap();
                bytes
            }
        });
        phalanx::sleep(Duration::from_millis(20)).await;
        let error = read.read(&mut Vec::new(), IoTimeout::after(TIMEOUT)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceBusy);
        peer.write_all(b"one").unwrap();
        assert_eq!(&first.await.unwrap(), b"one");
    });
}

/// The result would be that of the end of the stream.
fn nothing_is_skipped(driver: DriverChoice) {
    one(driver, |stage| async move {
        let skipping = stage.call(|_| async {
            let (stream, _peer) = pair().await;
            stream.skip(0, &mut Vec::new(), IoTimeout::after(TIMEOUT)).await
        });
        let Err(CallError::Panicked { message, .. }) = skipping.await else { panic!("a result") };
        assert_eq!(&*message, "nothing to skip; use read");
    });
}

/// This holds if few requests are in flight. The memory is returned, empty.
fn a_write_completes_at_once(driver: DriverChoice) {
    one(driver, |_| async {
        let (stream, mut peer) = pair().await;
        let mut head = Vec::with_capacity(100);
        head.extend_from_slice(b"head");
        let mut write = pin!(stream.write(head, IoTimeout::after(TIMEOUT)));
        let Poll::Ready(head) = poll_fn(|context| Poll::Ready(write.as_mut().poll(context))).await
        else {
            panic!("the write waits");
        };
        let head = head.unwrap();
        assert!(head.is_empty() && head.capacity() == 100);
        let mut received = [0; 4];
        peer.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"head");
    });
}

/// With io_uring, it shares a system call with others. The poll driver has one for each.
fn a_write_with_many_requests_in_flight(driver: DriverChoice) {
    one(driver, move |stage| async move {
        let (stream, mut peer) = pair().await;
        let mut idle = Vec::new();
        for _ in 0..20 {
            let (stream, peer) = pair().await;
            idle.push(peer);
            let reads = move |_| async move {
                stream.read(&mut Vec::new(), IoTimeout::NONE).await.unwrap();
            };
            stage.dispatch(reads).unwrap();
        }
        phalanx::sleep(Duration::from_millis(1)).await;
        let mut at_once = 0;
        loop {
            let mut write = pin!(stream.write(Bytes::from_static(b"x"), IoTimeout::after(TIMEOUT)));
            let written =
                poll_fn(|context| Poll::Ready(write.as_mut().poll(context).is_ready())).await;
            if !written {
                write.await.unwrap();
                break;
            }
            at_once += 1;
        }
        // The bound of a sweep.
        let expected = if matches!(driver, DriverChoice::Poll) { 64 } else { 0 };
        assert_eq!(at_once, expected);
        peer.read_exact(&mut vec![0; at_once + 1]).unwrap();
    });
}

fn an_operation_that_only_writes_lets_others_run(driver: DriverChoice) {
    one(driver, |stage| async move {
        let (stream, peer) = pair().await;
        let reader = std::thread::spawn(move || read_to_end(&peer).len());
        let has_run = Arc::new(AtomicBool::new(false));
        let (runs, mut written) = (has_run.clone(), 0);
        stage.dispatch(move |_| async move { runs.store(true, Ordering::Relaxed) }).unwrap();
        while !has_run.load(Ordering::Relaxed) {
            stream.write(Bytes::from_static(b"x"), IoTimeout::after(TIMEOUT)).await.unwrap();
            written += 1;
        }
        drop(stream);
        assert_eq!(on_other_thread(|| reader.join().unwrap()).await, written);
    });
}
