//! Streams, listeners, files and their requests, used and dropped away from their processor.

use std::io::Write;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use phalanx::fs::Dir;
use phalanx::net::{IoTimeout, Listener, OwnerError, Stream};
use phalanx::runtime::DriverChoice;
use phalanx::shutdown::{drain, draining};
use phalanx::{CallError, Session, SharedStage, sleep, yield_now};

use phalanx_testkit::TIMEOUT;
use phalanx_testkit::tcp::listener;

use crate::harness::{
    assert_closed, closed, on_each_driver, owner_error, pair, poll_once, program, read,
};

on_each_driver!(
    a_stream_on_another_processor,
    a_read_that_has_begun_on_another_processor,
    a_read_that_has_begun_is_dropped_elsewhere,
    a_session_ends_without_the_read_that_left,
    an_answer_that_waits_for_a_read_that_left,
    a_stream_beyond_its_runtime,
    a_read_beyond_its_runtime,
    two_runtimes_at_once,
    a_listener_on_another_processor,
    a_file_on_another_processor,
    a_drain_awaited_on_another_processor,
    a_timer_on_another_processor,
    a_simulation_within_an_operation,
);

/// A connection on processor 1 that is read there, and the test's end of it.
async fn reader_on_1(stage: SharedStage<()>) -> (phalanx::Call<Vec<u8>>, std::net::TcpStream) {
    let (peer, peers) = channel();
    let call = stage.call_on(1, move |_| async move {
        let (stream, other) = pair().await;
        peer.send(other).unwrap();
        let (result, _stream) = read(stream).await;
        result.unwrap()
    });
    loop {
        match peers.try_recv() {
            // The reader has begun its read when it next suspends, and only then sends this message.
            Ok(peer) => break (call, peer),
            Err(_) => sleep(Duration::from_millis(1)).await,
        }
    }
}

fn a_stream_on_another_processor(driver: DriverChoice) {
    program(driver, 2, |stage| async move {
        let (own, mut my_peer) = pair().await;
        my_peer.write_all(b"mine").unwrap();
        let (other, mut other_peer) = reader_on_1(stage).await;
        let moved = stage.call_on(1, move |_| async move {
            let mut bytes = Vec::new();
            let read = own.read(&mut bytes, IoTimeout::after(TIMEOUT)).await;
            assert_eq!(owner_error(read), OwnerError::WrongProcessor);
            assert_eq!(bytes, b"");
            let write = own.write(b"wrong".to_vec(), IoTimeout::after(TIMEOUT)).await;
            assert_eq!(owner_error(write), OwnerError::WrongProcessor);
            let skip = own.skip(1, &mut bytes, IoTimeout::after(TIMEOUT)).await;
            assert_eq!(owner_error(skip), OwnerError::WrongProcessor);
            assert_eq!(owner_error(own.peer_addr()), OwnerError::WrongProcessor);
            let shutdown = own.shutdown(std::net::Shutdown::Both);
            assert_eq!(owner_error(shutdown), OwnerError::WrongProcessor);
        });
        moved.await.unwrap();
        other_peer.write_all(b"theirs").unwrap();
        assert_eq!(other.await.unwrap(), b"theirs", "the other connection is untouched");
        closed(my_peer).await;
    });
}

fn a_read_that_has_begun_on_another_processor(driver: DriverChoice) {
    program(driver, 2, |stage| async move {
        let (own, my_peer) = pair().await;
        let mut reading = read(own);
        assert!(poll_once(&mut reading).await.is_pending());
        let (other, mut other_peer) = reader_on_1(stage).await;
        let moved = stage.call_on(1, move |_| async move {
            let (result, stream) = reading.await;
            assert_eq!(owner_error(result), OwnerError::WrongProcessor);
            // It may return to its processor, where it works again.
            stream
        });
        let stream = moved.await.unwrap();
        other_peer.write_all(b"theirs").unwrap();
        assert_eq!(other.await.unwrap(), b"theirs", "the other reader has its bytes");
        (&my_peer).write_all(b"mine").unwrap();
        assert_eq!(read(stream).await.0.unwrap(), b"mine");
        closed(my_peer).await;
    });
}

fn a_read_that_has_begun_is_dropped_elsewhere(driver: DriverChoice) {
    program(driver, 2, |stage| async move {
        for on_a_thread in [true, false] {
            let (own, my_peer) = pair().await;
            let mut reading = read(own);
            assert!(poll_once(&mut reading).await.is_pending());
            let (other, mut other_peer) = reader_on_1(stage).await;
            if on_a_thread {
                thread::spawn(move || drop(reading)).join().unwrap()
            } else {
                stage.call_on(1, move |_| async move { drop(reading) }).await.unwrap()
            }
            closed(my_peer).await;
            other_peer.write_all(b"theirs").unwrap();
            assert_eq!(other.await.unwrap(), b"theirs", "no other request was cancelled");
        }
    });
}

fn a_session_ends_without_the_read_that_left(driver: DriverChoice) {
    program(driver, 2, |stage| async move {
        let session = Session::new();
        let (sender, receiver) = channel();
        let call = session.scope(|| {
            stage.call(move |_| async move {
                let (stream, peer) = pair().await;
                let mut reading = read(stream);
                assert!(poll_once(&mut reading).await.is_pending());
                sender.send(reading).unwrap();
                peer
            })
        });
        let peer = call.await.unwrap();
        let reading = receiver.recv().unwrap();
        let mut end = session.end();
        assert!(poll_once(&mut end).await.is_pending(), "the kernel has its buffer");
        let dropped = stage.call_on(1, move |_| async move { drop(reading) });
        end.await;
        dropped.await.unwrap();
        closed(peer).await;
    });
}

fn an_answer_that_waits_for_a_read_that_left(driver: DriverChoice) {
    program(driver, 2, |stage| async move {
        let (own, mut my_peer) = pair().await;
        let mut reading = read(own);
        assert!(poll_once(&mut reading).await.is_pending());
        my_peer.write_all(b"in the buffer").unwrap();
        // The result waits in a buffer of the driver when the read moves.
        sleep(Duration::from_millis(20)).await;
        let moved = stage.call_on(1, move |_| async move { owner_error(reading.await.0) });
        assert_eq!(moved.await.unwrap(), OwnerError::WrongProcessor);
    });
}

fn a_stream_beyond_its_runtime(driver: DriverChoice) {
    let (kept, peer) = program(driver, 1, |_| pair());
    assert_closed(peer);
    program(driver, 1, |_| async move {
        let (own, mut peer) = pair().await;
        peer.write_all(b"mine").unwrap();
        let mut bytes = Vec::new();
        let read_kept = kept.read(&mut bytes, IoTimeout::after(TIMEOUT)).await;
        assert_eq!(owner_error(read_kept), OwnerError::Ended);
        assert_eq!(owner_error(kept.peer_addr()), OwnerError::Ended);
        drop(kept);
        assert_eq!(read(own).await.0.unwrap(), b"mine", "the new connection is untouched");
    });
}

fn a_read_beyond_its_runtime(driver: DriverChoice) {
    let begin = move || {
        program(driver, 1, |_| async {
            let (stream, peer) = pair().await;
            let mut reading = read(stream);
            assert!(poll_once(&mut reading).await.is_pending());
            (reading, peer)
        })
    };
    let ((one, one_peer), (two, two_peer)) = (begin(), begin());
    assert_closed(one_peer);
    assert_closed(two_peer);
    program(driver, 1, |_| async move {
        let (stream, mut peer) = pair().await;
        let mut own = read(stream);
        assert!(poll_once(&mut own).await.is_pending());
        assert_eq!(owner_error(one.await.0), OwnerError::Ended);
        drop(two);
        yield_now().await;
        peer.write_all(b"mine").unwrap();
        assert_eq!(own.await.0.unwrap(), b"mine");
    });
}

fn two_runtimes_at_once(driver: DriverChoice) {
    let (sender, receiver) = channel();
    let (finish, finished) = channel::<()>();
    let other = thread::spawn(move || {
        program(driver, 1, |_| async move {
            let (stream, peer) = pair().await;
            let (reading, reading_peer) = pair().await;
            let mut reading = read(reading);
            assert!(poll_once(&mut reading).await.is_pending());
            sender.send((stream, reading, peer, reading_peer)).unwrap();
            while finished.try_recv().is_err() {
                sleep(Duration::from_millis(1)).await;
            }
        });
    });
    let peers = program(driver, 1, |_| async move {
        let (stream, reading, peer, reading_peer) = receiver.recv().unwrap();
        let (own, mut my_peer) = pair().await;
        my_peer.write_all(b"mine").unwrap();
        let mut bytes = Vec::new();
        let result = stream.read(&mut bytes, IoTimeout::after(TIMEOUT)).await;
        assert_eq!(owner_error(result), OwnerError::WrongProcessor);
        assert_eq!(owner_error(reading.await.0), OwnerError::WrongProcessor);
        drop(stream);
        assert_eq!(read(own).await.0.unwrap(), b"mine");
        (peer, reading_peer)
    });
    // The other runtime closes it while it runs.
    assert_closed(peers.0);
    assert_closed(peers.1);
    finish.send(()).unwrap();
    other.join().unwrap();
}

fn a_listener_on_another_processor(driver: DriverChoice) {
    program(driver, 2, |stage| async move {
        let (socket, address) = listener();
        let listener = Listener::new(socket).unwrap();
        let moved = stage.call_on(1, move |_| async move {
            assert_eq!(owner_error(listener.local_addr()), OwnerError::WrongProcessor);
            assert_eq!(owner_error(listener.accept().await), OwnerError::WrongProcessor);
        });
        moved.await.unwrap();
        // Its own processor has closed it, so nothing listens.
        while Stream::connect(address, IoTimeout::after(TIMEOUT)).await.is_ok() {
            sleep(Duration::from_millis(1)).await;
        }
    });
}

fn a_file_on_another_processor(driver: DriverChoice) {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::open(home.path()).unwrap();
    program(driver, 2, |stage| async move {
        let file = dir.create(b"log", false).await.unwrap();
        file.write_at(0, "written on 0").await.unwrap();
        let mut syncing = Box::pin({
            let file = file.clone();
            async move { file.sync_data().await }
        });
        let is_pending = poll_once(&mut syncing).await.is_pending();
        let moved = stage.call_on(1, move |_| async move {
            if is_pending {
                assert_eq!(owner_error(syncing.await), OwnerError::WrongProcessor);
            }
            // A file does not belong to a driver: it is open in the whole program.
            file.write_at(0, "written on 1").await.unwrap();
            file.read_at(0, 100).await.unwrap()
        });
        assert_eq!(moved.await.unwrap(), b"written on 1");
    });
}

fn a_drain_awaited_on_another_processor(driver: DriverChoice) {
    program(driver, 2, |stage| async move {
        let mut waits = [draining(), draining()];
        for wait in &mut waits {
            assert!(poll_once(wait).await.is_pending());
        }
        // That processor's table also has an entry for this socket.
        let remote = stage.call_on(1, |_| draining());
        let [moved, dropped] = waits;
        let moved = stage.call_on(1, move |_| async move {
            drop(dropped);
            moved.await
        });
        drain();
        moved.await.unwrap();
        remote.await.unwrap();
    });
}

fn a_timer_on_another_processor(driver: DriverChoice) {
    program(driver, 2, |stage| async move {
        let mut timers = [(); 3].map(|()| sleep(Duration::from_secs(3600)));
        for timer in &mut timers {
            assert!(poll_once(timer).await.is_pending());
        }
        let [awaited, mut reset, dropped] = timers;
        let panicked = stage.call_on(1, move |_| awaited).await;
        let Err(CallError::Panicked { message, .. }) = panicked else { panic!("{panicked:?}") };
        assert!(message.contains("on a processor other than the one that created it"), "{message}");
        let panicked = stage.call_on(1, move |_| async move { reset.reset(Duration::ZERO) }).await;
        assert!(matches!(panicked, Err(CallError::Panicked { .. })), "{panicked:?}");
        thread::spawn(move || drop(dropped)).join().unwrap();
        // The program, which drains now, has no timer left.
    });
}

fn a_simulation_within_an_operation(driver: DriverChoice) {
    program(driver, 1, |_| async {
        let (stream, mut peer) = pair().await;
        let refused = std::panic::catch_unwind(|| phalanx::sim::run(1, |_| ()));
        let message = refused.expect_err("it is refused");
        let message = message.downcast_ref::<&str>().copied().unwrap_or_default();
        assert!(
            message.contains("a simulation was started on a thread that runs a processor"),
            "{message}"
        );
        peer.write_all(b"still here").unwrap();
        assert_eq!(read(stream).await.0.unwrap(), b"still here");
    });
}

/// Libraries such as hyper require this of a stream and its futures.
#[test]
fn streams_and_requests_are_send() {
    fn is_send<T: Send>(_: T) {}
    fn is_sync<T: Sync>() {}
    is_sync::<Stream>();
    let _ = |stream: Stream| {
        let shared = Arc::new(Mutex::new(Vec::new()));
        is_send(async move {
            let mut bytes = Vec::new();
            let _ = stream.read(&mut bytes, IoTimeout::NONE).await;
            shared.lock().unwrap().push(Poll::Ready(bytes));
            let _ = stream.write(Vec::new(), IoTimeout::NONE).await;
        });
    };
}
