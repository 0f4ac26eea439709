//! Notification of operations that the program drains.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use phalanx_core::{ProcessorId, catch_panic};

use crate::io::{run_on_home, try_with, with};

/// Resolves when the program begins to drain. The operation should then stop accepting new work and finish its current
/// work.
///
/// ```
/// # use phalanx::shutdown::draining;
/// # use phalanx::{Graph, Runtime};
/// # let mut graph = Graph::new();
/// # let stage = graph.shared("stage", ());
/// # Runtime::new().processors(1).signals(false).run(graph, move |start| {
/// #     let control = start.control();
/// stage.dispatch(|_| async {
///     draining().await; // an acceptor would drop its listener now
/// })?;
/// #     control.drain();
/// #     Ok(())
/// # }).unwrap();
/// ```
///
/// # Panics
/// The future panics when it is polled outside a processor.
pub fn draining() -> Draining {
    Draining { key: None }
}

/// The future of [`draining`]. It may be polled again after it has resolved. If it is moved to another processor, it
/// waits for the drain of that processor's program.
#[must_use = "futures do nothing unless awaited"]
pub struct Draining {
    /// The key in the table of waiting operations, and the processor that owns the table.
    key: Option<(usize, ProcessorId)>,
}

impl Draining {
    fn unregister(&mut self) {
        let Some((key, home)) = self.key.take() else { return };
        run_on_home(home, move |io| {
            if !io.drain_announced.get() {
                // The waker may be foreign code, so it is dropped after the borrow.
                let waker = io.draining.borrow_mut().remove(key);
                catch_panic(|| drop(waker));
            }
        });
    }
}

impl Future for Draining {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // The waker may be foreign code, so it is cloned before the borrow and dropped after it.
        let mut waker = context.waker().clone();
        with(|io| {
            if self.key.is_some_and(|(_, home)| home != io.home()) {
                self.unregister();
            }
            if io.drain_announced.get() {
                self.key = None;
                return Poll::Ready(());
            }
            let mut waiting = io.draining.borrow_mut();
            match self.key {
                Some((key, _)) => std::mem::swap(&mut waiting[key], &mut waker),
                None => self.key = Some((waiting.insert(waker), io.home())),
            }
            Poll::Pending
        })
    }
}

impl Drop for Draining {
    fn drop(&mut self) {
        self.unregister();
    }
}

/// Whether the program is draining or ending. Also true outside a processor of a running [`Runtime`](crate::Runtime),
/// for destructors that run after its end.
pub fn is_draining() -> bool {
    try_with(|io| io.drain_announced.get()).unwrap_or(true)
}
