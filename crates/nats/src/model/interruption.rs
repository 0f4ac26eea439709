//! Interruption of a client: after it has published to a given subject, everything that it sends waits.

use std::sync::{Arc, Mutex, PoisonError};

use phalanx::select;
use phalanx::shutdown::{draining, is_draining};
use phalanx::sync::oneshot;
use serde::Deserialize;

/// An interruption, on all processors.
#[derive(Clone, Default)]
pub(super) struct Interruption(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Suffix of the subjects that trigger the interruption.
    subjects: Option<String>,
    /// The name of the interrupted client.
    client: Option<String>,
    waiting: Vec<oneshot::Sender<()>>,
}

/// The part of CONNECT that the model uses.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Properties {
    pub(super) name: String,
}

impl Interruption {
    /// Interrupts the next client that publishes to a subject with this suffix.
    pub(super) fn arm(&self, subjects: &str) {
        self.change(|state| state.subjects = Some(subjects.to_owned()));
    }

    pub(super) fn end(&self) {
        self.change(|state| (state.subjects, state.client) = (None, None));
    }

    /// Records that a client publishes to a subject.
    pub(super) fn published(&self, client: &str, subject: &str) {
        self.change(|state| {
            if state.subjects.take_if(|end| subject.ends_with(&**end)).is_some() {
                state.client = Some(client.to_owned());
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        state.waiting.drain(..).for_each(|sender| sender.send(()));
    }

    /// Completes when messages of the client may pass, or at shutdown.
    pub(super) async fn wait_open(&self, client: &str) {
        loop {
            let receiver = {
                let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                if state.client.as_deref() != Some(client) || is_draining() {
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
