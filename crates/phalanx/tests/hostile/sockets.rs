//! Halves of streams and UDP sockets, used and dropped away from their processor.

use std::io::{Read, Write};
use std::task::{Context, Poll, Waker};
use std::thread;

use phalanx::net::{
    Bytes, IoTimeout, OwnedReadHalf, OwnedWriteHalf, OwnerError, Stream, UdpSocket,
};
use phalanx::runtime::DriverChoice;

use phalanx_testkit::TIMEOUT;

use crate::harness::{
    Reading, closed, on_each_driver, owner_error, pair, poll_once, program, read, run,
};

on_each_driver!(
    halves_on_another_processor,
    a_write_half_is_dropped_elsewhere,
    halves_beyond_their_runtime,
    a_stream_without_a_processor,
    a_datagram_socket_on_another_processor,
    a_receive_that_has_begun_on_another_processor,
    a_write_half_in_a_payload,
);

fn halves_on_another_processor(driver: DriverChoice) {
    program(driver, 2, |stage| async move {
        let (stream, mut peer) = pair().await;
        let (read, write) = stream.into_split();
        let moved = stage.call_on(1, move |_| async move {
            let timeout = IoTimeout::after(TIMEOUT);
            let mut bytes = Vec::new();
            let wrong = OwnerError::WrongProcessor;
            assert_eq!(owner_error(read.read(&mut bytes, timeout).await), wrong);
            assert_eq!(owner_error(read.read_exact(&mut [0; 3], timeout).await), wrong);
            assert_eq!(owner_error(write.write(b"wrong".to_vec(), timeout).await), wrong);
            let parts = [Bytes::from("wrong"), Bytes::from("too")];
            assert_eq!(owner_error(write.write_vectored(parts, timeout).await), wrong);
            assert_eq!(owner_error(write.shutdown()), wrong);
            assert_eq!(owner_error(write.local_addr()), wrong);
            assert_eq!(owner_error(read.as_ref().set_nodelay(true)), wrong);
            assert_eq!(owner_error(read.as_ref().set_keepalive(None)), wrong);
            (read, write)
        });
        let (read, write) = moved.await.unwrap();
        // Back on their processor they work.
        let stream = read.reunite(write).unwrap();
        stream.write(b"right".to_vec(), IoTimeout::after(TIMEOUT)).await.unwrap();
        let mut bytes = [0; 5];
        peer.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"right");
    });
}

fn a_write_half_is_dropped_elsewhere(driver: DriverChoice) {
    program(driver, 2, |stage| async move {
        for on_a_thread in [true, false] {
            let (stream, mut peer) = pair().await;
            let (read, write) = stream.into_split();
            if on_a_thread {
                thread::spawn(move || drop(write)).join().unwrap()
            } else {
                stage.call_on(1, move |_| async move { drop(write) }).await.unwrap()
            }
            let mut answering = peer.try_clone().unwrap();
            // Only the write direction is shut down, by the stream's own processor.
            closed(peer.try_clone().unwrap()).await;
            answering.write_all(b"answer").unwrap();
            let mut answer = [0; 6];
            read.read_exact(&mut answer, IoTimeout::after(TIMEOUT)).await.unwrap();
            assert_eq!(&answer, b"answer");
            thread::spawn(move || drop(read)).join().unwrap();
            while peer.write_all(b"x").is_ok() {
                phalanx::sleep(std::time::Duration::from_millis(1)).await;
            }
        }
    });
}

fn halves_beyond_their_runtime(driver: DriverChoice) {
    let ((read, write), peer) = program(driver, 1, |_| async {
        let (stream, peer) = pair().await;
        (stream.into_split(), peer)
    });
    crate::harness::assert_closed(peer);
    program(driver, 1, |_| async move {
        let timeout = IoTimeout::after(TIMEOUT);
        let late = read.read(&mut Vec::new(), timeout).await;
        assert_eq!(owner_error(late), OwnerError::Ended);
        assert_eq!(owner_error(write.shutdown()), OwnerError::Ended);
        drop(write);
        drop(read);
    });
}

/// On a thread that runs no processor, while the runtime runs and after it has ended.
fn a_stream_without_a_processor(driver: DriverChoice) {
    let ((started, stream, wrong), _) = run(driver, 1, |_| async {
        let ((one, _one_peer), (other, _other_peer)) = (pair().await, pair().await);
        let (mut started, mut moved) = (read(one), read(other));
        assert!(poll_once(&mut started).await.is_pending());
        assert!(poll_once(&mut moved).await.is_pending());
        let (stream, wrong) = thread::spawn(|| use_elsewhere(moved)).join().unwrap();
        (started, stream, wrong)
    });
    assert_eq!(wrong, [OwnerError::WrongProcessor; 2]);
    assert_eq!(use_elsewhere(started).1, [OwnerError::Ended; 2]);
    assert_eq!(use_elsewhere(read(stream)).1, [OwnerError::Ended; 2]);
}

/// The errors of a read and of a method of its stream, on this thread.
fn use_elsewhere(mut reading: Reading) -> (Stream, [OwnerError; 2]) {
    let polled = reading.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready((read, stream)) = polled else { panic!("it waits") };
    let wrong = [owner_error(read), owner_error(stream.local_addr())];
    (stream, wrong)
}

fn a_datagram_socket_on_another_processor(driver: DriverChoice) {
    program(driver, 2, |stage| async move {
        let any = "127.0.0.1:0".parse().unwrap();
        let (own, peer) = (UdpSocket::bind(any).unwrap(), UdpSocket::bind(any).unwrap());
        let address = own.local_addr().unwrap();
        let moved = stage.call_on(1, move |_| async move {
            let other = UdpSocket::bind(any).unwrap();
            let (timeout, wrong) = (IoTimeout::after(TIMEOUT), OwnerError::WrongProcessor);
            assert_eq!(owner_error(own.recv_from(&mut [0; 9], timeout).await), wrong);
            assert_eq!(owner_error(own.send_to("x", any, timeout).await), wrong);
            assert_eq!(owner_error(own.connect(any)), wrong);
            assert_eq!(owner_error(own.local_addr()), wrong);
            assert_eq!(owner_error(own.drops()), wrong);
            drop(own);
            other.local_addr().unwrap()
        });
        let other = moved.await.unwrap();
        assert_ne!(other, address);
        // Its own processor has closed it, or will soon do so.
        while UdpSocket::bind(address).is_err() {
            phalanx::sleep(std::time::Duration::from_millis(1)).await;
        }
        drop(peer);
    });
}

fn a_receive_that_has_begun_on_another_processor(driver: DriverChoice) {
    program(driver, 2, |stage| async move {
        let any = "127.0.0.1:0".parse().unwrap();
        let (own, peer) = (UdpSocket::bind(any).unwrap(), UdpSocket::bind(any).unwrap());
        let address = own.local_addr().unwrap();
        let mut receiving = Box::pin(async move {
            let mut bytes = [0; 4];
            let received = own.recv_from(&mut bytes, IoTimeout::after(TIMEOUT)).await;
            (received.map(|_| bytes), own)
        });
        assert!(poll_once(&mut receiving).await.is_pending());
        let moved = stage.call_on(1, move |_| async move {
            let (received, own) = receiving.await;
            assert_eq!(owner_error(received), OwnerError::WrongProcessor);
            own
        });
        let own = moved.await.unwrap();
        // The receive that moved was cancelled, and the cancellation may take until the next turn.
        loop {
            peer.send_to("mine", address, IoTimeout::NONE).await.unwrap();
            match own.recv_from(&mut [0; 4], IoTimeout::after(TIMEOUT)).await {
                Ok(received) => break assert_eq!(received.length, 4),
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy),
            }
        }
    });
}

/// A payload that owns a write half. The driver drops it while it is borrowed.
struct Payload(Vec<u8>, #[expect(dead_code, reason = "only dropped")] OwnedWriteHalf);

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn a_write_half_in_a_payload(driver: DriverChoice) {
    program(driver, 1, |_| async {
        let ((carrier, _carrier_peer), (stream, mut peer)) = (pair().await, pair().await);
        let (read, write) = stream.into_split();
        let payload = Bytes::from_owner(Payload(b"payload".to_vec(), write));
        carrier.write(payload, IoTimeout::after(TIMEOUT)).await.unwrap();
        closed(peer.try_clone().unwrap()).await;
        peer.write_all(b"still open").unwrap();
        let mut bytes = [0; 10];
        read.read_exact(&mut bytes, IoTimeout::after(TIMEOUT)).await.unwrap();
        assert_eq!(&bytes, b"still open");
    });
}

/// Futures that hold a socket may have to be `Send`.
#[test]
fn halves_and_datagram_sockets_are_send() {
    fn is_send<T: Send + Sync>() {}
    is_send::<OwnedReadHalf>();
    is_send::<OwnedWriteHalf>();
    is_send::<UdpSocket>();
}
