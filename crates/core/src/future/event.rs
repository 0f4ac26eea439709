//! An event: one value that an operation waits for and another part of the same processor provides
//! (WaitForEvent in tr2001 §5.2.1).

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::panic::catch_panic;

struct Inner<T> {
    value: Option<T>,
    waker: Option<Waker>,
    abandoned: bool,
}

/// An event that has not happened, and the means to make it happen.
pub fn event<T>() -> (Trigger<T>, Event<T>) {
    let inner = Inner { value: None, waker: None, abandoned: false };
    let inner = Rc::new(RefCell::new(inner));
    (Trigger(inner.clone()), Event(inner))
}

/// Makes an [`Event`] happen.
pub struct Trigger<T>(Rc<RefCell<Inner<T>>>);

impl<T> Trigger<T> {
    /// Provides the value and re-enables whoever waits for it.
    pub fn fire(self, value: T) {
        self.0.borrow_mut().value = Some(value);
    }
}

impl<T> Drop for Trigger<T> {
    fn drop(&mut self) {
        let mut inner = self.0.borrow_mut();
        inner.abandoned = true;
        if let Some(waker) = inner.waker.take() {
            drop(inner);
            catch_panic(|| waker.wake());
        }
    }
}

/// Resolves to the value, or to none when the trigger was dropped without firing: nobody waits in
/// vain.
#[must_use = "futures do nothing unless awaited"]
pub struct Event<T>(Rc<RefCell<Inner<T>>>);

impl<T> Future for Event<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        // Cloned before the borrow and dropped after it: a foreign waker is foreign code.
        let waker = context.waker().clone();
        let _before = {
            let mut inner = self.0.borrow_mut();
            if inner.value.is_some() || inner.abandoned {
                return Poll::Ready(inner.value.take());
            }
            inner.waker.replace(waker)
        };
        Poll::Pending
    }
}
