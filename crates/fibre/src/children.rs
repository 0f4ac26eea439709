//! The children of a scope: futures that the operation of their parent polls.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A scoped fibre.
pub(crate) type Child<'c> = Pin<Box<dyn Future<Output = ()> + 'c>>;

/// The unfinished children of a scope. A child's entry is `None` while it is polled.
#[derive(Default)]
pub(crate) struct Children(RefCell<Vec<Option<Child<'static>>>>);

impl Children {
    /// Polls each child. Returns whether one has finished.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> bool {
        let (mut index, mut finished) = (0, false);
        // Not a loop over the list: a child may start another one.
        while index < self.0.borrow().len() {
            let Some(mut child) = self.0.borrow_mut()[index].take() else {
                index += 1;
                continue;
            };
            match child.as_mut().poll(context) {
                Poll::Pending => {
                    self.0.borrow_mut()[index] = Some(child);
                    index += 1;
                }
                Poll::Ready(()) => {
                    _ = self.0.borrow_mut().remove(index);
                    finished = true;
                }
            }
        }
        finished
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    pub(crate) fn add(&self, child: Child<'static>) {
        self.0.borrow_mut().push(Some(child));
    }

    /// Drops the children one by one, without a borrow: their destructors are foreign code.
    pub(crate) fn drop_all(&self) {
        loop {
            let last = self.0.borrow_mut().pop();
            if last.is_none() {
                break;
            }
        }
    }
}
