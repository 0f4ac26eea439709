//! Foreign code called by a processor's I/O: wakers and payloads that panic or do I/O.

use std::future::Future;
use std::io::Write;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use phalanx::net::{Bytes, IoTimeout, Payload};
use phalanx::runtime::DriverChoice;
use phalanx::shutdown::{drain, draining};
use phalanx::sleep;

use phalanx_testkit::TIMEOUT;

use crate::harness::{closed, on_each_driver, pair, program, read};

on_each_driver!(
    a_waker_that_is_replaced_drops_a_read,
    a_waker_that_goes_with_its_read_drops_another,
    a_waker_that_panics,
    wakers_of_the_drain_that_panic,
    sent_values_may_own_streams,
);

/// A waker that runs a closure when it is dropped and panics when it is woken.
struct RunOnWake(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Wake for RunOnWake {
    fn wake(self: Arc<Self>) {
        panic!("hostile waker");
    }
}

impl Drop for RunOnWake {
    fn drop(&mut self) {
        if let Some(act) = self.0.get_mut().unwrap().take() {
            act();
        }
    }
}

fn hostile(act: impl FnOnce() + Send + 'static) -> Waker {
    Waker::from(Arc::new(RunOnWake(Mutex::new(Some(Box::new(act))))))
}

/// Polls once, with a waker to which only the future holds a reference.
fn poll_with<F: Future + Unpin>(future: &mut F, waker: Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

fn a_waker_that_is_replaced_drops_a_read(driver: DriverChoice) {
    program(driver, 1, |_| async {
        let ((one, mut one_peer), (two, two_peer)) = (pair().await, pair().await);
        let (mut one, mut two) = (read(one), read(two));
        assert!(poll_with(&mut two, Waker::noop().clone()).is_pending());
        assert!(poll_with(&mut one, hostile(|| drop(two))).is_pending());
        one_peer.write_all(b"one").unwrap();
        assert_eq!(one.await.0.unwrap(), b"one");
        closed(two_peer).await;
    });
}

fn a_waker_that_goes_with_its_read_drops_another(driver: DriverChoice) {
    program(driver, 1, |_| async {
        let ((one, one_peer), (two, two_peer)) = (pair().await, pair().await);
        let (mut one, mut two) = (read(one), read(two));
        assert!(poll_with(&mut two, Waker::noop().clone()).is_pending());
        let waker = hostile(|| {
            drop(two);
            panic!("hostile destructor");
        });
        assert!(poll_with(&mut one, waker).is_pending());
        drop(one);
        closed(one_peer).await;
        closed(two_peer).await;
    });
}

fn a_waker_that_panics(driver: DriverChoice) {
    program(driver, 1, |_| async {
        let (stream, mut peer) = pair().await;
        let mut reading = read(stream);
        assert!(poll_with(&mut reading, hostile(|| ())).is_pending());
        peer.write_all(b"here").unwrap();
        // The completion arrives in the meantime and wakes nobody.
        sleep(Duration::from_millis(50)).await;
        assert_eq!(reading.await.0.unwrap(), b"here");
    });
}

fn wakers_of_the_drain_that_panic(driver: DriverChoice) {
    program(driver, 1, |_| async {
        let mut waits = [draining(), draining(), draining()];
        let [replaced, dropped, notified] = &mut waits;
        assert!(poll_with(replaced, hostile(|| drop(draining()))).is_pending());
        assert!(poll_with(replaced, Waker::noop().clone()).is_pending());
        assert!(poll_with(dropped, hostile(|| panic!("hostile destructor"))).is_pending());
        assert!(poll_with(notified, hostile(|| ())).is_pending());
        let [_, dropped, _told] = waits;
        drop(dropped);
        drain();
        draining().await;
    });
}

/// Bytes whose destructor does I/O, inside the driver that has sent them.
struct Owner(Vec<u8>, Option<Box<dyn FnOnce() + Send>>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.1.take().into_iter().for_each(|act| act());
    }
}

fn sent_values_may_own_streams(driver: DriverChoice) {
    program(driver, 1, |_| async {
        let ((stream, peer), (kept, kept_peer)) = (pair().await, pair().await);
        let (read_by_owner, reading_peer) = pair().await;
        let mut reading = read(read_by_owner);
        assert!(poll_with(&mut reading, Waker::noop().clone()).is_pending());
        let owner = Owner(
            b"owned".to_vec(),
            Some(Box::new(move || {
                let _ = kept.shutdown(std::net::Shutdown::Both);
                let mut last = read(kept);
                let _ = poll_with(&mut last, Waker::noop().clone());
                drop((last, reading));
            })),
        );
        let payload = Payload { body: Bytes::from_owner(owner), ..Payload::default() };
        stream.write(payload, IoTimeout::after(TIMEOUT)).await.unwrap();
        closed(kept_peer).await;
        closed(reading_peer).await;
        drop(stream);
        drop(peer);
    });
}
