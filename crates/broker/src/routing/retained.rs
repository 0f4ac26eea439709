//! Retained messages, one per topic.

mod budget;
mod expiring;
mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use phalanx_mqtt::Reason;

use crate::model::message::{Message, Source};
use crate::model::stamp::Stamp;
use crate::requests::ChangedRequest;
pub(crate) use crate::routing::retained::budget::RetainedBudget;
use crate::routing::retained::expiring::Expiring;
pub(super) use crate::routing::retained::scan::Flow;
use crate::routing::retained::scan::{Scanned, Topics, scan};

/// The retained messages. Their number and their bytes are limited; the bytes include the index.
pub(crate) struct Retained {
    /// The messages, and in a cluster the remembered deletions. Ordered by topic, so that a scan can resume after any
    /// topic.
    entries: Topics<Entry>,
    /// The messages that expire.
    expiring: BTreeSet<Expiring>,
    deletions: BTreeSet<Expiring>,
    /// Bytes of the messages, and of their index.
    bytes: usize,
    /// Bytes of the deletions, and of their index.
    deletion_bytes: usize,
    most: usize,
    most_bytes: usize,
}

/// A retained message, or a deletion, which is an empty message.
struct Entry {
    message: Arc<Message>,
    /// The second of its arrival on the runtime's clock; 0 if it was recovered.
    changed: u32,
}

/// The time for which a deletion is remembered. A node keeps messages for another node for one hour.
const REMEMBERED: Duration = Duration::from_secs(2 * 3600);

/// Maximum memory of the remembered deletions. Beyond it, the oldest ones are forgotten.
const MAX_DELETION_BYTES: usize = 16 << 20;

/// Approximate memory of an index entry in bytes, without the characters of the topic.
const ENTRY_BYTES: usize = 64;

/// Maximum number of expired messages removed for each added one. Memory is freed soon, and no client waits for a large
/// cleanup.
const MAX_SWEPT: usize = 4;

/// Like [`MAX_SWEPT`], when the new message would otherwise exceed a limit.
const MAX_SWEPT_FOR_ROOM: usize = 1024;

/// Maximum number of expired messages removed by one step of the periodic sweep.
pub(super) const MAX_SWEPT_PER_STEP: usize = 1024;

/// Maximum number of topics in a page of changed messages.
const MAX_CHANGED: usize = 4096;

impl Retained {
    pub(crate) fn new(most: usize, most_bytes: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            expiring: BTreeSet::new(),
            deletions: BTreeSet::new(),
            bytes: 0,
            deletion_bytes: 0,
            most,
            most_bytes,
        }
    }

    /// The number of retained messages.
    pub(crate) fn count(&self) -> usize {
        self.entries.len() - self.deletions.len()
    }

    /// Memory of the retained messages, including their index.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Retains `message` at time `now` and replaces the topic's previous one; an empty message removes it. Messages
    /// beyond a limit are refused, and the previous one stays.
    pub(crate) fn keep(&mut self, message: &Arc<Message>, now: Duration) -> Result<(), Reason> {
        if message.payload.is_empty() {
            if message.stamp().is_set() {
                // Another node has remembered it for some time.
                let until = message.expires().filter(|_| message.source == Source::Retained);
                let until = (now + REMEMBERED).min(until.unwrap_or(Duration::MAX));
                self.put(Arc::new(message.deletion(until)), now);
            } else {
                self.remove(&message.topic);
            }
            return Ok(());
        }
        let before = self.entries.get(&*message.topic).filter(|entry| !entry.is_deletion());
        let before = before.map(|entry| size(&entry.message));
        let count = self.count() + usize::from(before.is_none());
        let bytes = self.bytes - before.unwrap_or(0) + size(message);
        if count > self.most || bytes > self.most_bytes {
            return Err(Reason::QUOTA_EXCEEDED);
        }
        self.put(message.clone(), now);
        Ok(())
    }

    /// Whether a topic has a message.
    #[cfg(test)]
    pub(crate) fn has(&self, topic: &str) -> bool {
        self.entries.get(topic).is_some_and(|entry| !entry.is_deletion())
    }

    /// Whether `message` itself is retained.
    pub(crate) fn holds(&self, message: &Arc<Message>) -> bool {
        self.entries.get(&*message.topic).is_some_and(|entry| Arc::ptr_eq(&entry.message, message))
    }

    /// The stamp of the last message of a topic, if it is known.
    pub(crate) fn stamp(&self, topic: &str) -> Stamp {
        self.entries.get(topic).map(|entry| entry.message.stamp()).unwrap_or_default()
    }

    /// Whether the topic has a later message or deletion than `message`, or the same one. All nodes of a cluster decide
    /// alike.
    pub(crate) fn supersedes(&self, message: &Message) -> bool {
        fn order(own: &Message) -> (Stamp, &[u8]) {
            (own.stamp(), &own.payload)
        }
        let Some(Entry { message: own, .. }) = self.entries.get(&*message.topic) else {
            return false;
        };
        // A message that a node of an earlier version has queued is later than one that was retained without a stamp.
        let is_later = own.stamp() == message.stamp()
            && !message.stamp().is_set()
            && message.source != Source::Retained;
        !is_later && order(own) >= order(message)
    }

    /// The remembered deletion of a topic.
    pub(crate) fn deletion(&self, topic: &str) -> Option<&Arc<Message>> {
        self.entries.get(topic).filter(|entry| entry.is_deletion()).map(|entry| &entry.message)
    }

    /// Returns a page of the messages and deletions that arrived since a time, and the last examined topic if there may be
    /// more.
    pub(crate) fn changed(
        &self,
        ChangedRequest { since, after }: &ChangedRequest,
    ) -> (Vec<Arc<Message>>, Option<Box<str>>) {
        let after = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let page = self.entries.range::<str, _>((after, Bound::Unbounded)).take(MAX_CHANGED);
        let (mut changed, mut last, mut examined) = (Vec::new(), None, 0);
        for (topic, own) in page {
            (last, examined) = (Some(topic), examined + 1);
            if u64::from(own.changed) >= since.as_secs() {
                changed.push(own.message.clone());
            }
        }
        (changed, last.filter(|_| examined == MAX_CHANGED).cloned())
    }

    /// Retains a recovered message, or remembers a recovered deletion, regardless of limits.
    pub(crate) fn restore(&mut self, message: Arc<Message>) {
        self.put(message, Duration::ZERO);
    }

    fn put(&mut self, message: Arc<Message>, now: Duration) {
        let entry = Entry { message: message.clone(), changed: now.as_secs() as u32 };
        let is_deletion = entry.is_deletion();
        let before = match self.entries.get_mut(&*message.topic) {
            Some(place) => Some(std::mem::replace(place, entry)),
            None => self.entries.insert(message.topic.as_str().into(), entry),
        };
        // Before the new one is added to the orders: the two are equal if they expire at the same time.
        before.inspect(|before| self.gone(before));
        let expiring = Expiring::of(&message);
        if is_deletion {
            self.deletion_bytes += size(&message);
            self.deletions.extend(expiring);
        } else {
            self.bytes += size(&message);
            self.expiring.extend(expiring);
        }
    }

    fn remove(&mut self, topic: &str) {
        if let Some(before) = self.entries.remove(topic) {
            self.gone(&before);
        }
    }

    fn gone(&mut self, before: &Entry) {
        let (bytes, order) = match before.is_deletion() {
            true => (&mut self.deletion_bytes, &mut self.deletions),
            false => (&mut self.bytes, &mut self.expiring),
        };
        *bytes -= size(&before.message);
        if let Some(expiring) = Expiring::of(&before.message) {
            order.remove(&expiring);
        }
    }

    /// Like [`keep`](Self::keep), but first removes some expired messages, and more if the message would exceed a limit.
    pub(crate) fn sweep_and_keep(
        &mut self,
        message: &Arc<Message>,
        now: Duration,
        mut forgotten: impl FnMut(&Message, Option<&Message>),
    ) -> Result<(), Reason> {
        let mut swept = 0;
        loop {
            let more = self.sweep(now, MAX_SWEPT, &mut forgotten);
            swept += more;
            let kept = self.keep(message, now);
            if kept.is_ok() || more < MAX_SWEPT || swept >= MAX_SWEPT_FOR_ROOM {
                return kept;
            }
        }
    }

    /// Removes up to `most` messages that expired before `now`, and passes each to `forgotten`. In a cluster, a deletion
    /// takes its place and is passed, too: other nodes may still have an earlier message. Also removes deletions that are
    /// no longer needed, or are beyond the bound. Returns the number removed.
    pub(crate) fn sweep(
        &mut self,
        now: Duration,
        most: usize,
        mut forgotten: impl FnMut(&Message, Option<&Message>),
    ) -> usize {
        for swept in 0..most {
            let is_full = self.deletion_bytes > MAX_DELETION_BYTES;
            let old = self.deletions.first().filter(|first| is_full || first.expires <= now);
            if let Some(deletion) = old.map(|first| first.message.clone()) {
                self.remove(&deletion.topic);
                forgotten(&deletion, None);
                continue;
            }
            let Some(first) = self.expiring.first().filter(|first| first.expires <= now) else {
                return swept;
            };
            let message = first.message.clone();
            if message.stamp().is_set() {
                let deletion = Arc::new(message.deletion(now + REMEMBERED));
                self.put(deletion.clone(), now);
                forgotten(&message, Some(&deletion));
            } else {
                self.remove(&message.topic);
                forgotten(&message, None);
            }
        }
        most
    }

    /// Calls `found` for each unexpired message whose topic matches `filter`, in topic order, starting after topic
    /// `after`. Examines between one and `most` topics, and stops early if `found` says so.
    pub(crate) fn scan<'r>(
        &'r self,
        filter: &str,
        (after, most): (Option<&str>, usize),
        now: Duration,
        mut found: impl FnMut(&'r Arc<Message>) -> Flow,
    ) -> Scanned<'r> {
        scan(&self.entries, filter, after, most, |entry| {
            match entry.is_deletion() || entry.message.has_expired(now) {
                true => Flow::Continue,
                false => found(&entry.message),
            }
        })
    }
}

impl Entry {
    fn is_deletion(&self) -> bool {
        self.message.payload.is_empty()
    }
}

/// The memory of a message and of its entry in the index, in bytes.
fn size(message: &Arc<Message>) -> usize {
    message.size() + ENTRY_BYTES + message.topic.len()
}

#[cfg(test)]
mod tests {
    use phalanx_mqtt::{Delivery, Property, PropertyBuffer, Publish};

    use super::*;
    use crate::model::client_key::ClientKey;

    const START: Duration = Duration::ZERO;

    fn message(topic: &str, payload: &[u8], expires: Option<u32>) -> Arc<Message> {
        let mut properties = PropertyBuffer::new();
        let expiry = expires.map(Property::MessageExpiry);
        expiry.into_iter().for_each(|expiry| properties.push(expiry).unwrap());
        let (delivery, properties) = (Delivery::AtMostOnce, properties.get());
        let publish =
            Publish { topic, payload, delivery, retain: true, duplicate: false, properties };
        let nobody = ClientKey { partition: 0, slot: 0, generation: 0 };
        Arc::new(Message::of(&publish, topic, (nobody, 0), Duration::ZERO))
    }

    #[test]
    fn topics_count() {
        let long = |n: usize| format!("{n}{}", "/x".repeat(190));
        let most = 100_000;
        let mut retained = Retained::new(usize::MAX, most);
        let fits =
            (0..1000).take_while(|n| retained.keep(&message(&long(*n), b"x", None), START).is_ok());
        let fits = fits.count();
        assert!((50..120).contains(&fits), "{fits} topics of 381 bytes, twice, in {most} bytes");
        assert!(retained.keep(&message(&long(0), b"y", None), START).is_ok(), "replaces a message");
        assert!(retained.keep(&message(&long(0), b"", None), START).is_ok());
        assert!(
            retained.keep(&message(&long(5000), b"x", None), START).is_ok(),
            "below the limit again"
        );
        (0..=5000).for_each(|n| retained.remove(&long(n)));
        assert_eq!((retained.count(), retained.bytes()), (0, 0));
    }

    /// The publisher's identifier is stored with the message.
    #[test]
    fn the_identifier_of_the_publisher_counts() {
        let bytes = |publisher: Option<&str>| {
            let mut own = message("t", b"x", None);
            Arc::get_mut(&mut own).unwrap().publisher = publisher.map(Into::into);
            let mut retained = Retained::new(usize::MAX, usize::MAX);
            retained.keep(&own, START).unwrap();
            retained.bytes()
        };
        assert_eq!(bytes(Some(&"c".repeat(1000))), bytes(None) + 1000);
    }

    #[test]
    fn expired_messages_take_no_room() {
        let mut retained = Retained::new(4, usize::MAX);
        let topic = |n: u32| format!("t/{n}");
        for n in 0..4 {
            retained.keep(&message(&topic(n), b"x", Some(n + 1)), START).unwrap();
        }
        // Replaced by a message that does not expire.
        retained.keep(&message("t/1", b"x", None), START).unwrap();
        assert!(retained.keep(&message("more", b"x", None), START).is_err());
        let mut forgotten = Vec::new();
        retained
            .sweep(Duration::from_secs(3), 4, |message, _| forgotten.push(message.topic.clone()));
        assert_eq!(forgotten, ["t/0", "t/2"]);
        assert_eq!(retained.count(), 2);
        assert!(retained.keep(&message("more", b"x", None), START).is_ok());
    }

    #[test]
    fn expired_messages_make_room_for_a_long_one() {
        let mut retained = Retained::new(usize::MAX, 200_000);
        let keeps = |retained: &mut Retained, message: &Arc<Message>| {
            retained.sweep_and_keep(message, Duration::from_secs(2), |_, _| ()).is_ok()
        };
        let fits = |n: &u32| retained.keep(&message(&n.to_string(), b"x", Some(1)), START).is_ok();
        let count = (0..1000).take_while(fits).count();
        let (long, longer) =
            (message("long", &[0; 150_000], None), message("t", &[0; 200_000], None));
        assert!(keeps(&mut retained, &long), "in the place of {count} expired messages");
        let left = retained.count();
        assert!(left > 1, "no more are removed than necessary");
        assert!(!keeps(&mut retained, &longer) && retained.count() == 1);
    }

    /// The journal records the removals in this order.
    #[test]
    fn messages_that_expire_together_are_removed_by_topic() {
        let mut retained = Retained::new(usize::MAX, usize::MAX);
        // Each is replaced by a message that expires at the same time.
        let both =
            ["d", "c", "b", "a"].into_iter().flat_map(|topic| [(topic, b"x"), (topic, b"y")]);
        both.for_each(|(topic, payload)| {
            retained.keep(&message(topic, payload, Some(1)), START).unwrap();
        });
        let mut removed = String::new();
        retained.sweep(Duration::from_secs(2), 4, |message, _| removed.push_str(&message.topic));
        assert_eq!((removed.as_str(), retained.count()), ("abcd", 0));
    }
}
