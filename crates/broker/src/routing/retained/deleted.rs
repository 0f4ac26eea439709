//! Deletions of retained messages in a cluster. A node remembers them until no node can still send an older message.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::model::message::Message;
use crate::model::stamp::Stamp;

/// The time for which a deletion is remembered. A node keeps messages for another node for one hour.
const REMEMBERED: Duration = Duration::from_secs(2 * 3600);

/// Maximum number of remembered deletions, and of the bytes of their topics. The oldest ones are forgotten first.
const MAX_DELETIONS: usize = 65_536;
const MAX_BYTES: usize = 8 << 20;

/// The last deletion of each topic that has no retained message.
#[derive(Default)]
pub(super) struct Deleted {
    /// By topic. The messages are empty.
    by_topic: BTreeMap<Box<str>, Arc<Message>>,
    /// In the order in which they are forgotten.
    order: BTreeSet<(Stamp, Box<str>)>,
    bytes: usize,
}

impl Deleted {
    pub(super) fn get(&self, topic: &str) -> Option<&Arc<Message>> {
        self.by_topic.get(topic)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.by_topic.values()
    }

    pub(super) fn add(&mut self, deletion: Arc<Message>) {
        let topic: Box<str> = deletion.topic.as_str().into();
        self.remove(&topic);
        self.bytes += topic.len();
        self.order.insert((deletion.stamp(), topic.clone()));
        self.by_topic.insert(topic, deletion);
    }

    pub(super) fn remove(&mut self, topic: &str) -> Option<Arc<Message>> {
        let (topic, deletion) = self.by_topic.remove_entry(topic)?;
        self.bytes -= topic.len();
        self.order.remove(&(deletion.stamp(), topic));
        Some(deletion)
    }

    /// Removes the oldest deletion if it is no longer needed at this time since 1970, or if there are too many.
    pub(super) fn forget(&mut self, day: Duration) -> Option<Arc<Message>> {
        let (stamp, topic) = self.order.first()?;
        let is_over = stamp.day() + REMEMBERED <= day;
        let is_full = self.order.len() > MAX_DELETIONS || self.bytes > MAX_BYTES;
        if !is_over && !is_full {
            return None;
        }
        let topic = topic.clone();
        self.remove(&topic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletions_are_forgotten_in_time_and_beyond_the_bounds() {
        let day = Duration::from_secs(1_800_000_000);
        let mut deleted = Deleted::default();
        let delete = |deleted: &mut Deleted, topic: &str, at: Duration| {
            let stamp = Stamp::default().next(at, "a");
            deleted.add(Arc::new(Message::deletion(topic, stamp)));
        };
        delete(&mut deleted, "t", day);
        delete(&mut deleted, "t", day + Duration::from_secs(60));
        delete(&mut deleted, "u", day);
        let forgotten = |deleted: &mut Deleted, after: Duration| {
            let forgotten = std::iter::from_fn(|| deleted.forget(day + after));
            forgotten.map(|own| own.topic.clone()).collect::<Vec<_>>()
        };
        assert!(forgotten(&mut deleted, REMEMBERED / 2).is_empty());
        assert_eq!(forgotten(&mut deleted, REMEMBERED), ["u"]);
        assert_eq!(forgotten(&mut deleted, REMEMBERED + Duration::from_secs(60)), ["t"]);
        assert_eq!((deleted.bytes, deleted.all().count()), (0, 0));
        for n in 0..MAX_DELETIONS as u64 + 2 {
            delete(&mut deleted, &format!("{n}"), day + Duration::from_micros(n));
        }
        assert_eq!(forgotten(&mut deleted, Duration::ZERO), ["0", "1"]);
        delete(&mut deleted, &"long/".repeat(2 << 20), day + Duration::from_secs(1));
        forgotten(&mut deleted, Duration::ZERO);
        assert!(deleted.bytes <= MAX_BYTES);
    }
}
