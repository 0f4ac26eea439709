//! Orders from clients to the programs of a world.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::launch::NewProgram;

/// An order of a client.
pub(in crate::sim) enum Order {
    Start(NewProgram),
    /// Stops or continues the program, depending on the flag.
    Stop(usize, bool),
    Drain(usize),
    Kill(usize),
}

/// The orders of clients to the scheduler. Clones share them.
#[derive(Clone, Default)]
pub(in crate::sim) struct Orders(Rc<State>);

#[derive(Default)]
struct State {
    /// Whether the world's program drains.
    drains: Cell<bool>,
    waiting: RefCell<VecDeque<Order>>,
    /// The number of programs that clients have started.
    started: Cell<usize>,
    /// The programs that have ended, and the clients that wait for the end of one.
    ended_programs: RefCell<(BTreeSet<usize>, Vec<Waker>)>,
}

impl fmt::Debug for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orders").finish_non_exhaustive()
    }
}

impl Orders {
    pub(in crate::sim) fn drain(&self) {
        self.0.drains.set(true);
    }

    pub(in crate::sim) fn drains(&self) -> bool {
        self.0.drains.get()
    }

    /// The next order for a single program.
    pub(in crate::sim) fn next(&self) -> Option<Order> {
        self.0.waiting.borrow_mut().pop_front()
    }

    /// Whether no order waits.
    pub(in crate::sim) fn is_empty(&self) -> bool {
        self.0.waiting.borrow().is_empty()
    }

    /// Records that a program has ended and was removed.
    pub(in crate::sim) fn record_end(&self, program: usize) {
        let (ended_programs, clients) = &mut *self.0.ended_programs.borrow_mut();
        ended_programs.insert(program);
        clients.drain(..).for_each(Waker::wake);
    }

    pub(in crate::sim) fn give(&self, order: Order) {
        self.0.waiting.borrow_mut().push_back(order);
    }

    /// The number for another program.
    pub(in crate::sim) fn number(&self) -> usize {
        self.0.started.update(|started| started + 1);
        self.0.started.get()
    }

    /// Waits until this program has ended.
    pub(in crate::sim) async fn ended(&self, program: usize) {
        poll_fn(|context| {
            let (ended_programs, clients) = &mut *self.0.ended_programs.borrow_mut();
            if ended_programs.contains(&program) {
                return Poll::Ready(());
            }
            // Clients are polled after each change.
            if !clients.iter().any(|client| client.will_wake(context.waker())) {
                clients.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}
