//! Decodes the recovered messages on all processors.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{available_parallelism, scope};

use phalanx_store::MessageId;

use crate::durable::encode::{Clocks, read_message};
use crate::model::message::Message;

/// A message as it was stored, with its ID.
type Stored = (MessageId, phalanx_store::Message);

/// Minimum number of messages for which another thread is started.
const MIN_THREAD_MESSAGES: usize = 4096;

/// The recovered messages, in the order of their IDs.
pub(crate) struct RecoveredMessages(Vec<(MessageId, Arc<Message>)>);

impl RecoveredMessages {
    /// Decodes messages, which have to be in the order of their IDs.
    ///
    /// # Errors
    /// A description of the first message that this version does not understand.
    pub(crate) fn decode(mut stored: Vec<Stored>, clocks: Clocks) -> Result<Self, String> {
        let threads = available_parallelism().map_or(1, usize::from);
        let share = stored.len().div_ceil(threads).max(MIN_THREAD_MESSAGES);
        if stored.len() <= share {
            return decode(&mut stored, clocks).map(Self);
        }
        let decoded = scope(|scope| {
            let threads: Vec<_> = stored
                .chunks_mut(share)
                .map(|share| scope.spawn(move || decode(share, clocks)))
                .collect();
            let joined = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| resume_unwind(panic))
            };
            threads.into_iter().map(joined).collect::<Result<Vec<_>, String>>()
        })?;
        Ok(Self(decoded.into_iter().flatten().collect()))
    }

    /// The message with this ID.
    pub(crate) fn get(&self, message: MessageId) -> Option<&Arc<Message>> {
        let at = self.0.binary_search_by_key(&message, |(id, _)| *id).ok()?;
        Some(&self.0[at].1)
    }
}

/// Decodes messages, leaving empty ones in their place.
fn decode(stored: &mut [Stored], clocks: Clocks) -> Result<Vec<(MessageId, Arc<Message>)>, String> {
    let mut last = None;
    let decoded = stored.iter_mut().map(|(id, message)| {
        let MessageId(number) = *id;
        let message = read_message(number, std::mem::take(message), clocks, &mut last)
            .ok_or_else(|| format!("message {number} has an unknown format"))?;
        Ok((*id, Arc::new(message)))
    });
    decoded.collect()
}
