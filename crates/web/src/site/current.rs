//! The current version of the configuration.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use crate::site::Site;

/// Handle to the current [`Site`]. Clones share it.
#[derive(Clone)]
pub(crate) struct CurrentSite(Arc<Shared>);

struct Shared {
    /// Generation of `latest`, outside the lock because every request reads it.
    generation: AtomicU64,
    latest: Mutex<Arc<Site>>,
    /// The operation that waits for another version.
    waiting: Mutex<Option<Waker>>,
}

impl CurrentSite {
    pub(crate) fn new(site: Arc<Site>) -> Self {
        let generation = AtomicU64::new(site.generation);
        Self(Arc::new(Shared { generation, latest: Mutex::new(site), waiting: Mutex::default() }))
    }

    /// Returns the current site.
    pub(crate) fn load(&self) -> Arc<Site> {
        self.0.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the current site. Requests in progress keep theirs.
    pub(crate) fn store(&self, site: Arc<Site>) {
        let generation = site.generation;
        let mut latest = self.0.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let previous = std::mem::replace(&mut *latest, site);
        // Stored after the site, so that a reader of this number finds at least this version.
        self.0.generation.store(generation, Ordering::Release);
        drop(latest);
        drop(previous);
        let waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waiting {
            waker.wake();
        }
    }

    /// Waits for a version other than `generation`. One operation may wait.
    pub(crate) async fn changed(&self, generation: u64) {
        poll_fn(|context| {
            // Set before the number is read, so that a version stored later wakes the operation.
            let waker = Some(context.waker().clone());
            *self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner) = waker;
            match self.0.generation.load(Ordering::Acquire) == generation {
                true => Poll::Pending,
                false => Poll::Ready(()),
            }
        })
        .await;
    }

    /// Updates `site` if it is not current, and returns whether it was not. Costs one load if it is.
    #[inline]
    pub(crate) fn refresh(&self, site: &mut Arc<Site>) -> bool {
        let is_old = self.0.generation.load(Ordering::Acquire) != site.generation;
        if is_old {
            *site = self.load();
        }
        is_old
    }
}
