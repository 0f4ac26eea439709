//! A bounded queue of values from any threads to one receiver.
//!
//! If the mailbox is full, a sender either gets its value back ([`Sender::try_send`], counted by [`Sender::refused`])
//! or waits for its turn ([`Sender::send`]). Both ends can be used on processors and on other threads.
//!
//! ```
//! use phalanx::sync::mailbox;
//! use phalanx::{Graph, Runtime};
//!
//! let mut graph = Graph::new();
//! let stage = graph.shared("stage", ());
//! Runtime::new().processors(1).run(graph, move |start| {
//!     let control = start.control();
//!     let (sender, mut receiver) = mailbox::bounded(64);
//!     let sensor = std::thread::spawn(move || (1..=3).try_for_each(|value| sender.try_send(value)));
//!     stage.dispatch(move |_| async move {
//!         let (mut batch, mut sum) = (Vec::new(), 0);
//!         // Takes all values that have arrived; zero after the last sender was dropped.
//!         while receiver.recv_many(&mut batch, 16).await > 0 {
//!             sum += batch.drain(..).sum::<u32>();
//!         }
//!         assert_eq!(sum, 6);
//!         sensor.join().unwrap().unwrap();
//!         control.drain();
//!     })?;
//!     Ok(())
//! })?;
//! # Ok::<(), phalanx::runtime::RunError>(())
//! ```
//!
//! One lock guards the queue. No waker, destructor or other foreign code runs under it.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use phalanx_core::wake_catching_panics;

use crate::lock::lock;

/// Creates a mailbox for at most `capacity` values.
///
/// # Panics
/// If `capacity` is zero.
pub fn bounded<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "the capacity of a mailbox must be at least one value");
    let state = State {
        values: VecDeque::new(),
        waiting: VecDeque::new(),
        next_ticket: 0,
        receiver: None,
        senders: 1,
        closed: false,
    };
    let mailbox = Mailbox { capacity, refused: AtomicU64::new(0), state: Mutex::new(state) };
    let mailbox = Arc::new(mailbox);
    (Sender(mailbox.clone()), Receiver { mailbox, spare: VecDeque::new() })
}

/// A value that was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError<T> {
    /// The mailbox is full.
    #[error("the mailbox is full; send later, or raise its capacity")]
    Full(T),
    /// The receiver is closed or dropped.
    #[error("the receiver of the mailbox is closed or dropped")]
    Closed(T),
}

struct Mailbox<T> {
    capacity: usize,
    refused: AtomicU64,
    state: Mutex<State<T>>,
}

struct State<T> {
    values: VecDeque<T>,
    /// The waiting senders, by ascending ticket. If there are any, `values` is full or the mailbox is closed.
    waiting: VecDeque<Waiting<T>>,
    next_ticket: u64,
    receiver: Option<Waker>,
    senders: usize,
    closed: bool,
}

struct Waiting<T> {
    ticket: u64,
    value: T,
    waker: Waker,
}

impl<T> Mailbox<T> {
    /// Runs `act` under the lock. It must neither drop nor wake anything.
    fn locked<R>(&self, act: impl FnOnce(&mut State<T>) -> R) -> R {
        act(&mut lock(&self.state))
    }
}

impl<T> State<T> {
    /// Adds a value, or returns it in the error. Returns the receiver's waker to wake.
    fn add(&mut self, value: T, capacity: usize) -> Result<Option<Waker>, SendError<T>> {
        if self.closed {
            return Err(SendError::Closed(value));
        }
        if self.values.len() >= capacity {
            return Err(SendError::Full(value));
        }
        self.values.push_back(value);
        Ok(self.receiver.take())
    }

    fn place_of(&self, ticket: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&ticket, |waiting| waiting.ticket).ok()
    }
}

/// A sending end of a mailbox.
pub struct Sender<T: Send>(Arc<Mailbox<T>>);

impl<T: Send> Sender<T> {
    /// Sends a value without waiting.
    ///
    /// # Errors
    /// [`SendError`] with the value. Refusals by a full mailbox are counted.
    pub fn try_send(&self, value: T) -> Result<(), SendError<T>> {
        let sent = self.0.locked(|state| state.add(value, self.0.capacity));
        if matches!(sent, Err(SendError::Full(_))) {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
        }
        sent?.into_iter().for_each(wake_catching_panics);
        Ok(())
    }

    /// Sends a value, waiting while the mailbox is full. Values are received in the order in which their senders began
    /// to wait. If the future is dropped while it waits, its value is not sent.
    ///
    /// The only error is [`SendError::Closed`].
    pub fn send(&self, value: T) -> SendFuture<'_, T> {
        SendFuture { mailbox: &self.0, progress: Progress::New(value) }
    }

    /// The number of values, from all senders, that [`try_send`](Self::try_send) has refused because the mailbox was
    /// full.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Whether the receiver is closed or dropped.
    pub fn is_closed(&self) -> bool {
        self.0.locked(|state| state.closed)
    }

    /// The maximum number of values in the mailbox.
    pub fn capacity(&self) -> usize {
        self.0.capacity
    }
}

impl<T: Send> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.locked(|state| state.senders += 1);
        Self(self.0.clone())
    }
}

impl<T: Send> Drop for Sender<T> {
    fn drop(&mut self) {
        let receiver = self.0.locked(|state| {
            state.senders -= 1;
            state.receiver.take_if(|_| state.senders == 0)
        });
        receiver.into_iter().for_each(wake_catching_panics);
    }
}

impl<T: Send> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("capacity", &self.0.capacity).finish_non_exhaustive()
    }
}

/// The future of [`Sender::send`].
#[must_use = "futures do nothing unless awaited"]
pub struct SendFuture<'s, T: Send> {
    mailbox: &'s Mailbox<T>,
    progress: Progress<T>,
}

enum Progress<T> {
    New(T),
    /// The value is waiting in the mailbox with this ticket.
    Waiting(u64),
    Over,
}

// The value is moved, never pinned.
impl<T: Send> Unpin for SendFuture<'_, T> {}

impl<T: Send> Future for SendFuture<'_, T> {
    type Output = Result<(), SendError<T>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mailbox = self.mailbox;
        let mut waker = Some(context.waker().clone());
        match std::mem::replace(&mut self.progress, Progress::Over) {
            Progress::New(value) => {
                let sent = mailbox.locked(|state| match state.add(value, mailbox.capacity) {
                    Err(SendError::Full(value)) => {
                        let ticket = state.next_ticket;
                        state.next_ticket += 1;
                        let waker = waker.take().expect("set above");
                        state.waiting.push_back(Waiting { ticket, value, waker });
                        Err(Ok(ticket))
                    }
                    other => other.map_err(Err),
                });
                match sent {
                    Ok(receiver) => receiver.into_iter().for_each(wake_catching_panics),
                    Err(Err(closed)) => return Poll::Ready(Err(closed)),
                    Err(Ok(ticket)) => {
                        self.progress = Progress::Waiting(ticket);
                        return Poll::Pending;
                    }
                }
                Poll::Ready(Ok(()))
            }
            Progress::Waiting(ticket) => {
                let polled = mailbox.locked(|state| {
                    let Some(place) = state.place_of(ticket) else { return Poll::Ready(None) };
                    if state.closed {
                        return Poll::Ready(state.waiting.remove(place));
                    }
                    let current = waker.as_mut().expect("set above");
                    std::mem::swap(&mut state.waiting[place].waker, current);
                    Poll::Pending
                });
                match polled {
                    Poll::Pending => {
                        self.progress = Progress::Waiting(ticket);
                        Poll::Pending
                    }
                    Poll::Ready(None) => Poll::Ready(Ok(())),
                    Poll::Ready(Some(unsent)) => Poll::Ready(Err(SendError::Closed(unsent.value))),
                }
            }
            Progress::Over => panic!("a send was polled after it had completed"),
        }
    }
}

impl<T: Send> Drop for SendFuture<'_, T> {
    fn drop(&mut self) {
        if let Progress::Waiting(ticket) = self.progress {
            let unsent = self.mailbox.locked(|state| {
                state.place_of(ticket).and_then(|place| state.waiting.remove(place))
            });
            drop(unsent);
        }
    }
}

/// The receiving end of a mailbox. Dropping it closes the mailbox and drops the values in it.
pub struct Receiver<T: Send> {
    mailbox: Arc<Mailbox<T>>,
    /// An empty queue that replaces the one whose values are taken, so that steady use allocates nothing.
    spare: VecDeque<T>,
}

impl<T: Send> Receiver<T> {
    /// Waits for a value. Returns `None` if the mailbox is empty and either no sender is left or it is
    /// [closed](Self::close). This method is cancel safe.
    pub async fn recv(&mut self) -> Option<T> {
        let mut received = None;
        self.wait(1, |value| received = Some(value)).await;
        received
    }

    /// Waits for a value, and appends it and further values that have arrived to `batch`, at most `max`. Returns their
    /// number, which is zero where [`recv`](Self::recv) would return `None`. This method is cancel safe.
    ///
    /// # Panics
    /// If `max` is zero.
    pub async fn recv_many(&mut self, batch: &mut Vec<T>, max: usize) -> usize {
        assert!(max > 0, "`max` must be at least one value");
        self.wait(max, |value| batch.push(value)).await
    }

    async fn wait(&mut self, max: usize, mut consume: impl FnMut(T)) -> usize {
        let Self { mailbox, spare } = self;
        poll_fn(|context| {
            let mut waker = Some(context.waker().clone());
            let mut admitted = Vec::new();
            let polled = mailbox.locked(|state| {
                let count = max.min(state.values.len());
                if count == 0 && !state.closed && state.senders > 0 {
                    std::mem::swap(&mut state.receiver, &mut waker);
                    return Poll::Pending;
                }
                if count == state.values.len() {
                    std::mem::swap(spare, &mut state.values)
                } else {
                    spare.extend(state.values.drain(..count))
                }
                while !state.closed
                    && state.values.len() < mailbox.capacity
                    && let Some(Waiting { value, waker, .. }) = state.waiting.pop_front()
                {
                    state.values.push_back(value);
                    admitted.push(waker);
                }
                Poll::Ready(count)
            });
            admitted.into_iter().for_each(wake_catching_panics);
            spare.drain(..).for_each(&mut consume);
            polled
        })
        .await
    }

    /// Refuses further values. Values in the mailbox can still be received; waiting senders get their values back.
    ///
    /// ```
    /// let (sender, mut receiver) = phalanx::sync::mailbox::bounded(64);
    /// sender.try_send(1).unwrap();
    /// receiver.close();
    /// assert!(sender.try_send(2).is_err());
    /// ```
    pub fn close(&mut self) {
        let waiting: Vec<_> = self.mailbox.locked(|state| {
            state.closed = true;
            state
                .waiting
                .iter_mut()
                .map(|waiting| std::mem::replace(&mut waiting.waker, Waker::noop().clone()))
                .collect()
        });
        waiting.into_iter().for_each(wake_catching_panics);
    }
}

impl<T: Send> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.close();
        drop(
            self.mailbox.locked(|state| (std::mem::take(&mut state.values), state.receiver.take())),
        );
    }
}

impl<T: Send> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("capacity", &self.mailbox.capacity).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_use_keeps_the_memory_of_both_queues() {
        let (sender, mut receiver) = bounded(4);
        for value in 0..3 {
            sender.try_send(value).unwrap();
            let receiving = std::pin::pin!(receiver.recv());
            let received = receiving.poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(received, Poll::Ready(Some(value)));
        }
        let capacity = receiver.mailbox.locked(|state| state.values.capacity());
        assert!(capacity > 0 && receiver.spare.capacity() > 0);
    }
}
