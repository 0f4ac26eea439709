//! A relay whose other side always has more to send.

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use phalanx::net::PollStream;
use phalanx::{Graph, Runtime, sleep};
use phalanx_compat::{Portable, portable};
use phalanx_testkit::within_limit;

/// A stream that takes all bytes at once. Meanwhile, the other side writes more.
struct Fast(Arc<Other>);

#[derive(Default)]
struct Other {
    stream: Mutex<Option<Portable<Fast>>>,
    is_over: AtomicBool,
}

impl Other {
    fn write(&self) {
        let context = &mut Context::from_waker(Waker::noop());
        if let Some(stream) = &mut *self.stream.lock().unwrap()
            && !self.is_over.load(Ordering::Relaxed)
        {
            assert!(stream.poll_write(context, &[IoSlice::new(b"more")]).is_ready());
        }
    }
}

impl PollStream for Fast {
    fn is_home(&self) -> bool {
        false
    }

    fn poll_read(
        &mut self,
        _: &mut Context<'_>,
        _: usize,
        _: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn poll_write(
        &mut self,
        _: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.write();
        Poll::Ready(Ok(parts[0].len()))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn other_operations_run_while_a_relay_sends() {
    within_limit(|| {
        let runtime = Runtime::new().processors(1).signals(false);
        let declare = |graph: &mut Graph| graph.shared("stage", ());
        let result = runtime.block_on(declare, |stage| async move {
            let other = Arc::new(Other::default());
            let (stream, relay) = portable(Fast(other.clone()));
            *other.stream.lock().unwrap() = Some(stream);
            other.write();
            let relay = stage.call(move |_| relay);
            // It sends meanwhile.
            sleep(Duration::from_millis(1)).await;
            other.is_over.store(true, Ordering::Relaxed);
            let stream = other.stream.lock().unwrap().take();
            drop(stream);
            relay.await
        });
        result.unwrap().unwrap();
    });
}
