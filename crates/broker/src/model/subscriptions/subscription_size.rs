//! The size of a subscription. The session stores it, because computing it requires parsing the content filter.

use std::sync::Arc;

use crate::model::maps::few_map::FewMap;

/// Keys of subscriptions.
pub(crate) type Keys = Arc<[Box<str>]>;

/// The size of a subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubscriptionSize {
    bytes: u32,
    conditions: u16,
    is_computed: bool,
}

impl SubscriptionSize {
    /// Maximum number of subscriptions and conditions that one step removes from the index. A condition takes about 0.1
    /// µs.
    pub(crate) const MAX_AT_ONCE: usize = 32 * 1024;

    pub(crate) fn new(bytes: usize, conditions: usize) -> Self {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        // No filter has more conditions than fit.
        let conditions = u16::try_from(conditions).unwrap_or(u16::MAX);
        Self { bytes, conditions, is_computed: false }
    }

    /// The same size, for a subscription with a condition that the index does not decide if it `is_computed`.
    pub(crate) fn computed(self, is_computed: bool) -> Self {
        Self { is_computed, ..self }
    }

    /// Whether the condition is one that the index does not decide.
    pub(crate) fn is_computed(self) -> bool {
        self.is_computed
    }

    /// Approximate memory in bytes if it shares no topic level: in the session, in the trie, and in the index of content
    /// filters.
    pub(crate) fn bytes(self) -> usize {
        self.bytes as usize
    }

    /// The number of conditions in all alternatives of its content filter.
    pub(crate) fn conditions(self) -> usize {
        self.conditions.into()
    }

    /// The work of removing it, in the unit of [`MAX_AT_ONCE`](Self::MAX_AT_ONCE).
    pub(crate) fn work(self) -> usize {
        1 + self.conditions()
    }
}

/// Divides keys into chunks, each of which one step removes from the index. Returns at least one chunk.
pub(crate) fn chunks(keys: FewMap<Box<str>, SubscriptionSize>) -> Vec<Keys> {
    let (mut chunks, mut chunk, mut work) = (Vec::new(), Vec::new(), 0);
    for (key, size) in keys.into_entries() {
        if work >= SubscriptionSize::MAX_AT_ONCE {
            chunks.push(std::mem::take(&mut chunk).into());
            work = 0;
        }
        chunk.push(key);
        work += size.work();
    }
    chunks.push(chunk.into());
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_bounded() {
        let lengths = |count: usize, conditions: usize| {
            let size = SubscriptionSize::new(0, conditions);
            let chunks = chunks((0..count).map(|n| (n.to_string().into(), size)).collect());
            chunks.iter().map(|chunk| chunk.len()).collect::<Vec<_>>()
        };
        assert_eq!(lengths(0, 0), [0]);
        assert_eq!(lengths(40_000, 0), [32 * 1024, 40_000 - 32 * 1024]);
        assert_eq!(lengths(5, 256 * 64), [2, 2, 1]);
        assert_eq!(lengths(2, 256 * 64), [2]);
    }
}
