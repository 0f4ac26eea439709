//! `prefetch(&data).await`: loads a cache line while other operations of the cohort run.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::memory::prefetch::start_load;
use crate::processor;

/// Starts to load the cache line where `data` begins. Await the returned future before you use the data: in the
/// meantime, the next operations of the same cohort run and start their own loads.
///
/// The load starts with the call, not with the `await`. The `await` returns immediately if no other operation can run
/// in the meantime: if the operation is alone in its cohort, if [`MAX_INTERLEAVED`](crate::MAX_INTERLEAVED) operations
/// are already waiting, or if the future is polled with another task's waker or outside a processor. On architectures
/// other than x86-64 and AArch64, no load is started.
///
/// Use it only if the data is likely to be in memory and not in a cache: a suspension costs about as much as a load
/// from the third-level cache.
///
/// ```
/// use phalanx_core::{Graph, prefetch};
///
/// let mut graph = Graph::new();
/// let table = graph.shared("table", vec![7u64; 1 << 10]);
/// let processor = graph.build(1).remove(0).build(Box::new(|| ()));
/// processor.enter(|| {
///     for n in 0..64 {
///         let lookup = table.call(move |table| async move {
///             let row = &table[n * 997 % table.len()];
///             prefetch(row).await; // others start their loads
///             *row
///         });
///         # lookup.detach().unwrap();
///     }
///     # processor.turn(&phalanx_core::IdleWorld);
/// });
/// # assert_eq!(processor.live(), 0);
/// ```
#[inline(always)]
pub fn prefetch<T: ?Sized>(data: &T) -> Prefetch {
    start_load((&raw const *data).cast());
    Prefetch { waited: false }
}

/// The future of [`prefetch`].
#[must_use = "the load has started; await this so that others run while it comes"]
#[derive(Debug)]
pub struct Prefetch {
    waited: bool,
}

impl Future for Prefetch {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.waited, true) {
            return Poll::Ready(());
        }
        match processor::try_current(|processor| processor.may_interleave(context)) {
            Some(true) => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }
}
