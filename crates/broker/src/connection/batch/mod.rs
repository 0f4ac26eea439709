//! The batch of one read: the messages, acknowledgements and releases that are processed together.

#![expect(clippy::vec_box, reason = "a batch stays in its box while it is pooled")]

pub(super) mod gather;

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use phalanx_mqtt::{Ack, Delivery, Kind, PacketId, Reason};

use crate::model::message::Message;
use crate::session::state::outgoing::Answered;

/// Maximum number of messages in a batch, and the capacity that an unused batch keeps.
const MAX_BATCH: usize = 1024;
/// Number of unused batches that a thread keeps.
const MAX_SPARE: usize = 16;

thread_local! {
    static SPARE: RefCell<Vec<Box<Batch>>> = const { RefCell::new(Vec::new()) };
}

/// The contents of one read.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) messages: Vec<Arc<Message>>,
    pub(super) deliveries: Vec<Delivery>,
    /// A reused buffer of reason codes.
    pub(super) reasons: Vec<Reason>,
    /// Indices into `deliveries` of rejected messages, with the reason.
    pub(super) refused: Vec<(usize, Reason)>,
    /// The size of `messages`.
    pub(super) bytes: usize,
    pub(super) answers: Vec<Answered>,
    /// QoS 2 messages that the client releases.
    pub(super) releases: Vec<PacketId>,
}

impl Batch {
    /// Whether there is no message.
    pub(super) fn is_empty(&self) -> bool {
        self.deliveries.is_empty()
    }

    /// Adds an acknowledgement.
    pub(super) fn add_answer(&mut self, kind: Kind, ack: Ack<'_>) {
        self.answers.push(Answered { kind, id: ack.id, failed: ack.reason.is_failure() });
    }
}

/// A batch that is borrowed from the thread's pool while a read is processed, so an idle connection holds no batch.
pub(super) struct SpareBatch(Option<Box<Batch>>);

impl SpareBatch {
    /// An empty batch.
    pub(super) fn take() -> Self {
        Self(Some(SPARE.with_borrow_mut(Vec::pop).unwrap_or_default()))
    }
}

impl Deref for SpareBatch {
    type Target = Batch;

    fn deref(&self) -> &Batch {
        self.0.as_ref().expect("taken by the destructor only")
    }
}

impl DerefMut for SpareBatch {
    fn deref_mut(&mut self) -> &mut Batch {
        self.0.as_mut().expect("taken by the destructor only")
    }
}

impl Drop for SpareBatch {
    fn drop(&mut self) {
        let Some(mut own) = self.0.take() else { return };
        let Batch { messages, deliveries, reasons, refused, bytes, answers, releases } = &mut *own;
        // An error may have left messages.
        clear(messages);
        clear(deliveries);
        clear(reasons);
        clear(refused);
        clear(answers);
        clear(releases);
        *bytes = 0;
        // Fails if the thread is ending.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < MAX_SPARE {
                spare.push(own);
            }
        });
    }
}

/// Removes the contents, and shrinks an unusually large buffer.
fn clear<T>(memory: &mut Vec<T>) {
    memory.clear();
    memory.shrink_to(MAX_BATCH);
}
