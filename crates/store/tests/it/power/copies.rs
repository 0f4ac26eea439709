//! A mirror in memory, which survives power cuts.

use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx::net::Bytes;
use phalanx::sleep;
use phalanx_store::{Batches, LocalFuture, Mirror, MirrorLost};

/// The stored batches, in order.
pub(crate) type Stored = Vec<(u64, Vec<u8>)>;

#[derive(Clone, Default)]
pub(crate) struct Copies(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    stored: Stored,
    /// The number of the batch at which the mirror loses all batches, once.
    loses_at: Option<u64>,
    is_behind: bool,
    is_complete: bool,
}

impl Copies {
    pub(crate) fn of(stored: Stored, loses_at: Option<u64>) -> Self {
        Self(Arc::new(Mutex::new(State { stored, loses_at, ..State::default() })))
    }

    pub(crate) fn stored(&self) -> Stored {
        self.0.lock().unwrap().stored.clone()
    }

    /// Whether all batches were lost, and whether others may rely on the copy.
    pub(crate) fn state(&self) -> (bool, bool) {
        let state = self.0.lock().unwrap();
        (state.loses_at.is_none(), state.is_complete)
    }
}

/// The batches of a journal.
pub(crate) fn batches(id: u64, stored: &Stored) -> Batches {
    let mut batches = Batches::new(id);
    stored.iter().for_each(|(number, batch)| batches.push(*number, batch.clone()));
    batches
}

impl Mirror for Copies {
    fn open(&self, _: u64, first: u64, next: u64) -> LocalFuture<'_, Result<u64, MirrorLost>> {
        let mut state = self.0.lock().unwrap();
        state.stored.retain(|(number, _)| *number < next);
        state.is_behind = false;
        let first_missing = state.stored.last().map_or(first, |(number, _)| number + 1);
        Box::pin(async move { Ok(first_missing) })
    }

    fn is_behind(&self) -> bool {
        self.0.lock().unwrap().is_behind
    }

    fn complete(&self) -> LocalFuture<'_, Result<(), MirrorLost>> {
        self.0.lock().unwrap().is_complete = true;
        Box::pin(async { Ok(()) })
    }

    fn append(&self, number: u64, batch: Bytes) -> LocalFuture<'_, Result<(), MirrorLost>> {
        Box::pin(async move {
            // Sometimes before the disk, and sometimes after it.
            sleep(Duration::from_micros(number % 5 * 100)).await;
            {
                let mut state = self.0.lock().unwrap();
                if state.loses_at.is_some_and(|at| number >= at) {
                    *state = State { is_behind: true, ..State::default() };
                    return Err(MirrorLost("all batches are lost".into()));
                }
                state.stored.push((number, batch.to_vec()));
            }
            sleep(Duration::from_micros(number % 7 * 100)).await;
            Ok(())
        })
    }

    fn trim(self: Rc<Self>, first: u64) -> LocalFuture<'static, ()> {
        Box::pin(
            async move { self.0.lock().unwrap().stored.retain(|(number, _)| *number >= first) },
        )
    }
}
