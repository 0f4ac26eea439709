//! Retained messages, one per topic.

mod budget;
mod deleted;
mod scan;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use phalanx_mqtt::Reason;

use crate::model::message::Message;
use crate::model::stamp::Stamp;
use crate::requests::ChangedRequest;
pub(crate) use crate::routing::retained::budget::RetainedBudget;
use crate::routing::retained::deleted::Deleted;
pub(super) use crate::routing::retained::scan::Flow;
use crate::routing::retained::scan::{Scanned, Topics, scan};

/// The retained messages. Their number and their bytes are limited; the bytes include the index.
pub(crate) struct Retained {
    /// Ordered by topic, so that a scan can resume after any topic.
    messages: Topics<Arc<Message>>,
    /// The messages that expire.
    expiring: BTreeSet<Expiring>,
    /// The deletions, in a cluster.
    deleted: Deleted,
    /// The greatest stamp of the recovered messages.
    recovered: Stamp,
    /// Bytes of the messages, and of the index.
    bytes: usize,
    most: usize,
    most_bytes: usize,
}

/// A retained message that expires, ordered by time of expiry and topic. The order must not depend on addresses: the
/// journal records each removal, and a simulation with the same seed has to write the same journal.
struct Expiring {
    expires: Duration,
    message: Arc<Message>,
}

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
            messages: BTreeMap::new(),
            expiring: BTreeSet::new(),
            deleted: Deleted::default(),
            recovered: Stamp::default(),
            bytes: 0,
            most,
            most_bytes,
        }
    }

    /// The number of retained messages.
    pub(crate) fn count(&self) -> usize {
        self.messages.len()
    }

    /// Memory of the retained messages, including their index.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Retains `message` and replaces the topic's previous one; an empty message removes it. Messages beyond a
    /// limit are refused, and the previous one stays.
    pub(crate) fn keep(&mut self, message: &Arc<Message>) -> Result<(), Reason> {
        if message.payload.is_empty() {
            self.remove(&message.topic);
            if message.stamp().is_set() {
                let deletion = Message::deletion(&message.topic, message.stamp());
                self.deleted.add(Arc::new(deletion));
            }
            return Ok(());
        }
        let before = self.messages.get(&*message.topic).map(size);
        let count = self.count() + usize::from(before.is_none());
        let bytes = self.bytes - before.unwrap_or(0) + size(message);
        if count > self.most || bytes > self.most_bytes {
            return Err(Reason::QUOTA_EXCEEDED);
        }
        self.put(message.clone());
        Ok(())
    }

    /// Whether a topic has a message.
    #[cfg(test)]
    pub(crate) fn has(&self, topic: &str) -> bool {
        self.messages.contains_key(topic)
    }

    /// Whether `message` itself is retained.
    pub(crate) fn holds(&self, message: &Arc<Message>) -> bool {
        self.messages.get(&*message.topic).is_some_and(|kept| Arc::ptr_eq(kept, message))
    }

    /// The message of a topic or its deletion, which another node may have sent.
    fn current(&self, topic: &str) -> Option<&Arc<Message>> {
        self.messages.get(topic).or_else(|| self.deleted.get(topic))
    }

    /// The stamp of the last message of a topic, if it is known.
    pub(crate) fn stamp(&self, topic: &str) -> Stamp {
        self.current(topic).map(|own| own.stamp()).unwrap_or_default()
    }

    /// Whether the topic has a later message or deletion than `message`, or the same one. All nodes of a cluster decide
    /// alike.
    pub(crate) fn supersedes(&self, message: &Message) -> bool {
        fn order(own: &Message) -> (Stamp, &[u8]) {
            (own.stamp(), &own.payload)
        }
        self.current(&message.topic).is_some_and(|own| order(own) >= order(message))
    }

    /// The remembered deletion of a topic.
    pub(crate) fn deletion(&self, topic: &str) -> Option<&Arc<Message>> {
        self.deleted.get(topic)
    }

    /// Returns a page of the messages and deletions since a time, and the last examined topic if there may be more.
    pub(crate) fn changed(
        &self,
        ChangedRequest { since, before, after }: &ChangedRequest,
    ) -> (Vec<Arc<Message>>, Option<Box<str>>) {
        let since = since.unwrap_or_else(|| self.recovered.day().saturating_sub(*before));
        let is_later = |own: &&Arc<Message>| own.stamp() >= Stamp::since(since);
        let after_it = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let topics = self.messages.range::<str, _>((after_it, Bound::Unbounded));
        let page: Vec<_> = topics.take(MAX_CHANGED).collect();
        let next = page.last().filter(|_| page.len() == MAX_CHANGED);
        let next = next.map(|(topic, _)| (*topic).clone());
        let deleted = self.deleted.all().filter(|_| after.is_none());
        let all = deleted.chain(page.into_iter().map(|(_, message)| message));
        (all.filter(is_later).cloned().collect(), next)
    }

    /// Retains a recovered message, or remembers a recovered deletion, regardless of limits.
    pub(crate) fn restore(&mut self, message: Arc<Message>) {
        self.recovered = self.recovered.max(message.stamp());
        match message.payload.is_empty() {
            true => self.deleted.add(message),
            false => self.put(message),
        }
    }

    fn put(&mut self, message: Arc<Message>) {
        self.deleted.remove(&message.topic);
        self.bytes += size(&message);
        let expiring = Expiring::of(&message);
        let before = match self.messages.get_mut(&*message.topic) {
            Some(place) => Some(std::mem::replace(place, message)),
            None => self.messages.insert(message.topic.as_str().into(), message),
        };
        before.inspect(|before| self.gone(before));
        // Only after the previous message was removed: the two entries are equal if they expire at the same time.
        self.expiring.extend(expiring);
    }

    fn remove(&mut self, topic: &str) {
        if let Some(before) = self.messages.remove(topic) {
            self.gone(&before);
        }
    }

    fn gone(&mut self, message: &Arc<Message>) {
        self.bytes -= size(message);
        if let Some(expiring) = Expiring::of(message) {
            self.expiring.remove(&expiring);
        }
    }

    /// Like [`keep`](Self::keep), but first removes some expired messages, and more if the message would exceed a limit.
    pub(crate) fn sweep_and_keep(
        &mut self,
        message: &Arc<Message>,
        now: Duration,
        mut forgotten: impl FnMut(&Message),
    ) -> Result<(), Reason> {
        let mut swept = 0;
        loop {
            let more = self.sweep(now, MAX_SWEPT, &mut forgotten);
            swept += more;
            let kept = self.keep(message);
            // Only those beyond the bounds.
            self.forget_deletions(Duration::ZERO, MAX_SWEPT, &mut forgotten);
            if kept.is_ok() || more < MAX_SWEPT || swept >= MAX_SWEPT_FOR_ROOM {
                return kept;
            }
        }
    }

    /// Removes up to `most` messages that expired before `now`, and passes each to `forgotten`. Returns the number
    /// removed.
    pub(crate) fn sweep(
        &mut self,
        now: Duration,
        most: usize,
        mut forgotten: impl FnMut(&Message),
    ) -> usize {
        for swept in 0..most {
            let Some(first) = self.expiring.first().filter(|first| first.expires <= now) else {
                return swept;
            };
            let message = first.message.clone();
            self.remove(&message.topic);
            forgotten(&message);
        }
        most
    }

    /// Forgets up to `most` deletions that are no longer needed at this time since 1970, or are beyond the bounds, and
    /// passes each to `forgotten`.
    pub(crate) fn forget_deletions(
        &mut self,
        day: Duration,
        most: usize,
        forgotten: impl FnMut(&Message),
    ) {
        let old = std::iter::from_fn(|| self.deleted.forget(day)).take(most);
        let mut forgotten = forgotten;
        old.for_each(|deletion| forgotten(&deletion));
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
        scan(&self.messages, filter, after, most, |message| match message.has_expired(now) {
            true => Flow::Continue,
            false => found(message),
        })
    }
}

/// The memory of a message and of its entry in the index, in bytes.
fn size(message: &Arc<Message>) -> usize {
    message.size() + ENTRY_BYTES + message.topic.len()
}

impl Expiring {
    /// `None` if the message does not expire.
    fn of(message: &Arc<Message>) -> Option<Self> {
        message.expires().map(|expires| Self { expires, message: message.clone() })
    }

    fn key(&self) -> (Duration, &str) {
        (self.expires, &self.message.topic)
    }
}

impl Ord for Expiring {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Expiring {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Expiring {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Expiring {}

#[cfg(test)]
mod tests {
    use phalanx_mqtt::{Delivery, Property, PropertyBuffer, Publish};

    use super::*;
    use crate::model::client_key::ClientKey;

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
        let fits = (0..1000).take_while(|n| retained.keep(&message(&long(*n), b"x", None)).is_ok());
        let fits = fits.count();
        assert!((50..120).contains(&fits), "{fits} topics of 381 bytes, twice, in {most} bytes");
        assert!(retained.keep(&message(&long(0), b"y", None)).is_ok(), "replaces a message");
        assert!(retained.keep(&message(&long(0), b"", None)).is_ok());
        assert!(retained.keep(&message(&long(5000), b"x", None)).is_ok(), "below the limit again");
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
            retained.keep(&own).unwrap();
            retained.bytes()
        };
        assert_eq!(bytes(Some(&"c".repeat(1000))), bytes(None) + 1000);
    }

    #[test]
    fn expired_messages_take_no_room() {
        let mut retained = Retained::new(4, usize::MAX);
        let topic = |n: u32| format!("t/{n}");
        for n in 0..4 {
            retained.keep(&message(&topic(n), b"x", Some(n + 1))).unwrap();
        }
        // Replaced by a message that does not expire.
        retained.keep(&message("t/1", b"x", None)).unwrap();
        assert!(retained.keep(&message("more", b"x", None)).is_err());
        let mut forgotten = Vec::new();
        retained.sweep(Duration::from_secs(3), 4, |message| forgotten.push(message.topic.clone()));
        assert_eq!(forgotten, ["t/0", "t/2"]);
        assert_eq!(retained.count(), 2);
        assert!(retained.keep(&message("more", b"x", None)).is_ok());
    }

    #[test]
    fn expired_messages_make_room_for_a_long_one() {
        let mut retained = Retained::new(usize::MAX, 200_000);
        let keeps = |retained: &mut Retained, own: &Arc<Message>| {
            retained.sweep_and_keep(own, Duration::from_secs(2), |_| ()).is_ok()
        };
        let fits = |n: &u32| retained.keep(&message(&n.to_string(), b"x", Some(1))).is_ok();
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
            retained.keep(&message(topic, payload, Some(1))).unwrap();
        });
        let mut removed = String::new();
        retained.sweep(Duration::from_secs(2), 4, |message| removed.push_str(&message.topic));
        assert_eq!((removed.as_str(), retained.count()), ("abcd", 0));
    }
}
