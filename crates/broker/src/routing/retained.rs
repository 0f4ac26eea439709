//! Messages that are kept for those who subscribe later: one for each topic.

use std::sync::Arc;
use std::time::Duration;

use phalanx_mqtt::Reason;

use crate::message::Message;
use crate::trie::Trie;

/// The retained messages, no more than a number of them and of bytes.
pub(crate) struct Retained {
    messages: Trie<Arc<Message>>,
    count: usize,
    bytes: usize,
    most: usize,
    most_bytes: usize,
}

impl Retained {
    pub(crate) fn new(most: usize, most_bytes: usize) -> Self {
        Self { messages: Trie::default(), count: 0, bytes: 0, most, most_bytes }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Keeps `message` in place of the one before, or none if it is empty. Refused at a bound; then the
    /// one before stays.
    pub(crate) fn keep(&mut self, message: &Arc<Message>) -> Result<(), Reason> {
        let before = self.messages.get_mut(&message.topic).map(|before| before.size());
        if message.payload.is_empty() {
            if let Some(before) = before {
                self.messages.remove(&message.topic);
                self.count -= 1;
                self.bytes -= before;
            }
            return Ok(());
        }
        let count = self.count + usize::from(before.is_none());
        let bytes = self.bytes - before.unwrap_or(0) + message.size();
        if count > self.most || bytes > self.most_bytes {
            return Err(Reason::QUOTA_EXCEEDED);
        }
        (self.count, self.bytes) = (count, bytes);
        *self.messages.entry(&message.topic, || message.clone()) = message.clone();
        Ok(())
    }

    /// Keeps what was kept before, however many they are.
    pub(crate) fn restore(&mut self, message: Arc<Message>) {
        self.count += 1;
        self.bytes += message.size();
        *self.messages.entry(&message.topic, || message.clone()) = message.clone();
    }

    /// Those whose topics `filter` asks for, and that are still worth something at `now`.
    pub(crate) fn below<'r>(
        &'r self,
        filter: &str,
        now: Duration,
        mut found: impl FnMut(&'r Arc<Message>),
    ) {
        self.messages.below(filter, |message| {
            if !message.has_expired(now) {
                found(message);
            }
        });
    }
}
