//! Requests that wait for a slot, in order.
//!
//! A slot that becomes free is given to the first waiting request, so a later one cannot overtake it. The first one also
//! looks regularly for servers that have recovered, because no request ends then.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sync::Notify;
use phalanx::time::timeout;

use crate::upstream::tried::Tried;

/// Time after which the first request looks for servers that have recovered.
pub(super) const RECOVERY_INTERVAL: Duration = Duration::from_millis(100);

/// One waiting request.
#[derive(Default)]
struct Waiter {
    /// Servers that the request has already tried.
    tried: Tried,
    /// The server whose slot the request was given.
    granted: Cell<Option<usize>>,
    changed: Notify,
}

/// The waiting requests of one processor.
#[derive(Default)]
pub(super) struct Queue(RefCell<VecDeque<Rc<Waiter>>>);

impl Queue {
    /// Gives a slot to the first request for which `occupy` finds one. `occupy` receives the servers that the request
    /// has already tried. Returns false if there is no such request.
    pub(super) fn grant(&self, occupy: impl Fn(Tried) -> Option<usize>) -> bool {
        let mut waiting = self.0.borrow_mut();
        let found = waiting.iter().enumerate();
        let mut found = found.filter_map(|(n, waiter)| Some((n, occupy(waiter.tried)?)));
        let Some((n, member)) = found.next() else { return false };
        let Some(first) = waiting.remove(n) else { return false };
        first.granted.set(Some(member));
        first.changed.notify();
        drop(waiting);
        self.notify_first();
        true
    }

    /// Another request may be the first one now.
    fn notify_first(&self) {
        if let Some(first) = self.0.borrow().front() {
            first.changed.notify();
        }
    }

    /// Waits for a slot of a server that is not in `tried`. If the future is dropped, a slot that it has been given is
    /// passed to `release`. `recover` gives slots of servers that have recovered to requests that wait.
    pub(super) async fn wait(
        &self,
        tried: Tried,
        recover: impl Fn(),
        release: impl Fn(usize),
    ) -> usize {
        let waiter = Rc::new(Waiter { tried, ..Waiter::default() });
        self.0.borrow_mut().push_back(waiter.clone());
        let waiting = Waiting { queue: self, waiter, release };
        loop {
            if let Some(member) = waiting.waiter.granted.take() {
                return member;
            }
            let changed = waiting.waiter.changed.notified();
            if !waiting.is_first() {
                changed.await;
            } else if timeout(RECOVERY_INTERVAL, changed).await.is_err() {
                recover();
            }
        }
    }
}

/// Leaves the queue when it is dropped.
struct Waiting<'a, F: Fn(usize)> {
    queue: &'a Queue,
    waiter: Rc<Waiter>,
    release: F,
}

impl<F: Fn(usize)> Waiting<'_, F> {
    fn is_first(&self) -> bool {
        let waiting = self.queue.0.borrow();
        waiting.front().is_some_and(|first| Rc::ptr_eq(first, &self.waiter))
    }
}

impl<F: Fn(usize)> Drop for Waiting<'_, F> {
    fn drop(&mut self) {
        match self.waiter.granted.take() {
            Some(member) => (self.release)(member),
            None => {
                self.queue.0.borrow_mut().retain(|other| !Rc::ptr_eq(other, &self.waiter));
                self.queue.notify_first();
            }
        }
    }
}
