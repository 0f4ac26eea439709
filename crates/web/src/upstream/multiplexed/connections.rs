//! A processor's connections with HTTP/2 to one server.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use crate::upstream::multiplexed::connect::MAX_STREAMS;
use crate::upstream::multiplexed::connection::{Dial, Multiplexed};

/// The connections that accept further requests.
#[derive(Default)]
pub(in crate::upstream) struct Connections {
    all: RefCell<Vec<Rc<Multiplexed>>>,
    /// Requests that a connection accepts at a time, if one was opened.
    streams: Cell<Option<usize>>,
}

impl Connections {
    /// A connection with room for a request, if there is one; one that is not yet open if `is_fresh`.
    pub(in crate::upstream) fn find(&self, is_fresh: bool) -> Option<Rc<Multiplexed>> {
        let mut all = self.all.borrow_mut();
        all.retain(|connection| !connection.has_ended());
        let mut with_room = all.iter().filter(|connection| connection.has_room());
        with_room.find(|connection| !(is_fresh && connection.is_open())).cloned()
    }

    /// Starts to open a connection.
    ///
    /// # Errors
    /// If the operation limit is reached.
    pub(in crate::upstream) fn dial(&self, dial: Dial<'_>) -> io::Result<Rc<Multiplexed>> {
        let made = Multiplexed::dial(dial, self.streams.get().unwrap_or(MAX_STREAMS))?;
        self.all.borrow_mut().push(made.clone());
        Ok(made)
    }

    /// Records how many requests a connection accepts at a time.
    pub(in crate::upstream) fn accepts(&self, streams: usize) {
        self.streams.set(Some(streams));
    }

    /// Closes an unused connection if there are more than `limit`.
    pub(in crate::upstream) fn trim(&self, limit: usize) {
        let mut all = self.all.borrow_mut();
        let unused = all.iter().filter(|connection| connection.is_unused()).count();
        if unused > limit
            && let Some(first) = all.iter().position(|connection| connection.is_unused())
        {
            all.remove(first);
        }
    }

    /// Closes connections that are unused for `limit`, at time [`Duration::MAX`] all unused ones; those in use get no
    /// further requests then. Returns whether any is left.
    pub(in crate::upstream) fn expire(&self, now: Duration, limit: Duration) -> bool {
        let mut all = self.all.borrow_mut();
        all.retain(|connection| {
            let is_over = connection.has_ended() || connection.has_expired(now, limit);
            now < Duration::MAX && !is_over
        });
        !all.is_empty()
    }
}
