//! The network between the model and some of its clients.

use std::sync::{Arc, Mutex, PoisonError};

use phalanx::select;
use phalanx::shutdown::{draining, is_draining};
use phalanx::sync::oneshot;

/// The treatment of data and connections by a gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Passage {
    /// They pass.
    #[default]
    Open,
    /// Data waits until the gate opens, as if hosts were cut off.
    Frozen,
    /// Connections are closed.
    Closed,
}

/// A gate, on all processors.
#[derive(Clone, Default)]
pub(super) struct Gate(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    passage: Passage,
    waiting: Vec<oneshot::Sender<()>>,
}

impl Gate {
    pub(super) fn set(&self, passage: Passage) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.passage = passage;
        state.waiting.drain(..).for_each(|sender| sender.send(()));
    }

    /// Completes when data may pass, or at shutdown.
    pub(super) async fn wait_open(&self) {
        self.wait_until(|passage| passage == Passage::Open).await;
    }

    /// Completes when connections are to be closed, or at shutdown.
    pub(super) async fn wait_closed(&self) {
        self.wait_until(|passage| passage == Passage::Closed).await;
    }

    async fn wait_until(&self, predicate: impl Fn(Passage) -> bool) {
        loop {
            let receiver = {
                let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                if predicate(state.passage) || is_draining() {
                    return;
                }
                let (sender, receiver) = oneshot::shared();
                state.waiting.push(sender);
                receiver
            };
            select(receiver, Box::pin(draining())).await;
        }
    }
}
