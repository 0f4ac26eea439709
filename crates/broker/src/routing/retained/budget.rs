//! Bounds the time for which one cohort reads retained messages.

/// The budget of one cohort for all its SUBSCRIBEs: topics to examine, and bytes to read for content filters. It bounds
/// the time for which other clients wait to about a millisecond plus the time to read one message.
pub(crate) struct RetainedBudget {
    topics: usize,
    bytes: usize,
}

/// The largest share of one SUBSCRIBE, in topics and bytes, so that several make progress.
const MAX_SHARE: (usize, usize) = (1024, 64 << 10);

/// The share of a new SUBSCRIBE when the budget is spent. Most SUBSCRIBEs need no more, so they do not wait behind large
/// ones.
const MIN_SHARE: (usize, usize) = (16, 4 << 10);

/// The part of the budget that one SUBSCRIBE may spend in one cohort.
pub(in crate::routing) struct RetainedShare {
    topics: usize,
    bytes: usize,
    /// Whether the last message may exceed the bytes. Without this, a message longer than the budget would never be read.
    may_exceed: bool,
    /// Bytes read but not yet deducted from the budget.
    read: usize,
}

impl Default for RetainedBudget {
    fn default() -> Self {
        Self { topics: 4096, bytes: 256 << 10 }
    }
}

impl RetainedBudget {
    /// Returns the share of a SUBSCRIBE, which is new or continued from an earlier cohort.
    pub(in crate::routing) fn share(&self, is_new: bool) -> RetainedShare {
        let least = if is_new { MIN_SHARE } else { (0, 0) };
        RetainedShare {
            topics: self.topics.clamp(least.0, MAX_SHARE.0),
            bytes: self.bytes.clamp(least.1, MAX_SHARE.1),
            may_exceed: self.bytes > 0,
            read: 0,
        }
    }

    /// Deducts the examined topics, and the bytes read for `share`, from the budget.
    pub(in crate::routing) fn spend(&mut self, share: &mut RetainedShare, topics: usize) {
        share.topics = share.topics.saturating_sub(topics);
        self.topics = self.topics.saturating_sub(topics);
        self.bytes = self.bytes.saturating_sub(std::mem::take(&mut share.read));
    }
}

impl RetainedShare {
    pub(in crate::routing) fn topics(&self) -> usize {
        self.topics
    }

    /// Whether nothing is left.
    pub(in crate::routing) fn is_spent(&self) -> bool {
        self.topics == 0 || self.bytes == 0
    }

    /// Deducts the bytes of the next message to read. Returns false if they exceed the share; the share is then spent.
    pub(in crate::routing) fn take(&mut self, bytes: usize) -> bool {
        let may_read = bytes <= self.bytes || (self.may_exceed && self.bytes > 0);
        self.read += if may_read { bytes } else { 0 };
        self.bytes = self.bytes.saturating_sub(bytes);
        may_read
    }
}
