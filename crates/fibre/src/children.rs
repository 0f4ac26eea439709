//! The children of a scope: futures that the operation of their parent polls.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A scoped fibre.
pub(crate) type Child<'c> = Pin<Box<dyn Future<Output = ()> + 'c>>;

/// The unfinished children of a scope.
#[derive(Default)]
pub(crate) struct Children {
    /// A child's entry is `None` while it is polled.
    list: RefCell<Vec<Option<Child<'static>>>>,
    /// Whether a child has been added since the last poll.
    has_new: Cell<bool>,
}

impl Children {
    /// Polls each child. Returns whether one has finished.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> bool {
        let (mut index, mut finished) = (0, false);
        // Not a loop over the list: a child may start another one.
        while index < self.list.borrow().len() {
            let Some(mut child) = self.list.borrow_mut()[index].take() else {
                index += 1;
                continue;
            };
            match child.as_mut().poll(context) {
                Poll::Pending => {
                    self.list.borrow_mut()[index] = Some(child);
                    index += 1;
                }
                Poll::Ready(()) => {
                    _ = self.list.borrow_mut().remove(index);
                    finished = true;
                }
            }
        }
        self.has_new.set(false);
        finished
    }

    /// Whether a child has been added since the last poll.
    pub(crate) fn has_new(&self) -> bool {
        self.has_new.get()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.borrow().is_empty()
    }

    pub(crate) fn add(&self, child: Child<'static>) {
        self.list.borrow_mut().push(Some(child));
        self.has_new.set(true);
    }

    /// Drops the children one by one, without borrowing the list: their destructors may access it.
    pub(crate) fn drop_all(&self) {
        loop {
            let last = self.list.borrow_mut().pop();
            if last.is_none() {
                break;
            }
        }
    }
}
