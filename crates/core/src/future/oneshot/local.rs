//! A channel for one value between two operations of one processor (WaitForEvent in tr2001 §5.2.1).

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::panic::catch_panic;

struct Inner<T> {
    value: Option<T>,
    waker: Option<Waker>,
    closed: bool,
}

/// Creates a channel for one value. Both ends stay on their processor.
///
/// ```
/// use phalanx_core::{SharedStage, oneshot};
///
/// async fn ask(stage: SharedStage<()>) -> Option<u32> {
///     let (sender, receiver) = oneshot::local();
///     stage.dispatch(move |_| async move { sender.send(7) }).ok()?;
///     receiver.await // none if the sender was dropped
/// }
/// ```
pub fn local<T>() -> (LocalSender<T>, LocalReceiver<T>) {
    let inner = Inner { value: None, waker: None, closed: false };
    let inner = Rc::new(RefCell::new(inner));
    (LocalSender(inner.clone()), LocalReceiver(inner))
}

/// The sending end of a [`local`] channel.
pub struct LocalSender<T>(Rc<RefCell<Inner<T>>>);

impl<T> LocalSender<T> {
    /// Sends the value and wakes the receiver.
    pub fn send(self, value: T) {
        self.0.borrow_mut().value = Some(value);
    }
}

impl<T> Drop for LocalSender<T> {
    fn drop(&mut self) {
        let mut inner = self.0.borrow_mut();
        inner.closed = true;
        if let Some(waker) = inner.waker.take() {
            drop(inner);
            catch_panic(|| waker.wake());
        }
    }
}

/// The receiving end of a [`local`] channel. Resolves to the value, or to `None` if the sender was dropped
/// without sending.
#[must_use = "futures do nothing unless awaited"]
pub struct LocalReceiver<T>(Rc<RefCell<Inner<T>>>);

impl<T> Future for LocalReceiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        // Cloned before the borrow and dropped after it, because cloning or dropping a foreign waker runs foreign code.
        let waker = context.waker().clone();
        let _before = {
            let mut inner = self.0.borrow_mut();
            if inner.value.is_some() || inner.closed {
                return Poll::Ready(inner.value.take());
            }
            inner.waker.replace(waker)
        };
        Poll::Pending
    }
}
