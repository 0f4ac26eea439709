//! Where the newest version of the configuration is found.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::site::Site;

/// The newest [`Site`]. Clones share it.
#[derive(Clone)]
pub(crate) struct CurrentSite(Arc<Shared>);

struct Shared {
    /// Of `newest`: looked at by every request, so apart from the lock.
    generation: AtomicU64,
    newest: Mutex<Arc<Site>>,
}

impl CurrentSite {
    pub(crate) fn new(site: Arc<Site>) -> Self {
        let generation = AtomicU64::new(site.generation);
        Self(Arc::new(Shared { generation, newest: Mutex::new(site) }))
    }

    /// The newest.
    pub(crate) fn load(&self) -> Arc<Site> {
        self.0.newest.lock().unwrap_or_else(|poison| poison.into_inner()).clone()
    }

    /// Puts a newer version in the place of the newest. Requests under way go on with theirs.
    pub(crate) fn store(&self, site: Arc<Site>) {
        let generation = site.generation;
        let mut newest = self.0.newest.lock().unwrap_or_else(|poison| poison.into_inner());
        let before = std::mem::replace(&mut *newest, site);
        // Behind the site itself: who sees the number finds at least this version.
        self.0.generation.store(generation, Ordering::Release);
        drop(newest);
        drop(before);
    }

    /// Makes `site` the newest, if it is not: one load where it is.
    #[inline]
    pub(crate) fn refresh(&self, site: &mut Arc<Site>) {
        if self.0.generation.load(Ordering::Acquire) != site.generation {
            *site = self.load();
        }
    }
}
