//! Questions of connections: which node has the session of a client that has no session here.

use std::sync::Mutex;
use std::time::Duration;

use phalanx::select;
use phalanx::shutdown::draining;
use phalanx::sync::oneshot;
use phalanx::task::Either;
use phalanx::time::now;

use crate::access::Identity;
use crate::lock::lock;
use crate::peers::count_fitting;

/// Maximum number of questions that wait to be sent. Further questions are not answered.
const MAX_WAITING: usize = 10_000;

/// Where a client's session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionLocation {
    /// No other node has it.
    NoOtherNode,
    OtherNode,
    /// Another node has it, and it cannot move here, because this node has as many sessions as `max-sessions` allows.
    Full,
    /// The session is here now.
    Here,
    /// The session may be at a node that does not answer.
    Unknown,
}

/// A question of a connection.
pub(crate) struct Question {
    pub(crate) client: Identity,
    /// The time at which its connection asked.
    pub(crate) asked_at: Duration,
    pub(crate) answer: oneshot::Sender<SessionLocation>,
}

/// The questions that have not been sent yet.
#[derive(Default)]
pub(crate) struct Questions(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: Vec<Question>,
    wake: Option<oneshot::Sender<()>>,
}

impl Questions {
    /// Asks the other nodes, and waits for the answer.
    pub(crate) async fn ask(&self, client: Identity) -> SessionLocation {
        let (answer, receiver) = oneshot::shared();
        {
            let mut state = lock(&self.0);
            if state.waiting.len() >= MAX_WAITING {
                return SessionLocation::Unknown;
            }
            state.add(Question { client, asked_at: now(), answer });
        }
        match select(receiver, Box::pin(draining())).await {
            Either::Left(Some(answer)) => answer,
            _ => SessionLocation::Unknown,
        }
    }

    /// Enqueues a question again.
    pub(crate) fn requeue(&self, question: Question) {
        lock(&self.0).add(question);
    }

    /// Takes up to `max_count` questions with up to `max_bytes` of names, but at least one if there is any.
    pub(crate) fn take(&self, max_count: usize, max_bytes: usize) -> Vec<Question> {
        let mut state = lock(&self.0);
        let clients = state.waiting.iter().map(|question| &question.client);
        let count = count_fitting(clients, max_count, max_bytes);
        state.waiting.drain(..count).collect()
    }

    /// Completes when there are questions. Called before [`take`](Self::take).
    pub(crate) fn changed(&self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::shared();
        lock(&self.0).wake = Some(sender);
        receiver
    }
}

impl State {
    fn add(&mut self, question: Question) {
        self.waiting.push(question);
        if let Some(wake) = self.wake.take() {
            wake.send(());
        }
    }
}
