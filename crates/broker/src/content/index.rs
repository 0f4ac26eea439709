//! A single index of all content filters. It considers only filters whose topic filter matches the message.
//!
//! Each topic filter that has content filters is assigned a number, and each of its content filters in the
//! index also requires that number. A message becomes one event per matching topic filter. All events of a
//! cohort are matched together.
//!
//! For filters with conditions that the index cannot decide, it finds candidates. Those are evaluated on the
//! attributes of the message, which are read once per message.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use phalanx_matcher::{
    Attribute, Evaluator, Event, Filter, Index, Literal, Matches, Options, Snapshot, Value,
};

use crate::content::attributes::{Attributes, ByName};
use crate::content::parse::Content;
use crate::model::message::Message;
use crate::model::subscriptions::group::{Group, Joining};
use crate::model::subscriptions::subscribers::{ClientIndex, Subscription};

/// Identifies a filter by its client and its subscription's key. The members of a group share one filter.
pub(crate) type Key = (Option<ClientIndex>, Box<str>);

/// The receiver of messages that satisfy a filter.
pub(crate) enum Owner {
    Client(ClientIndex, Subscription),
    /// One member of the group receives the message.
    Group(Group),
}

/// An owner, and the condition on its filter's candidates if the index does not decide.
struct IndexedFilter {
    owner: Owner,
    check: Option<Check>,
}

/// A condition on candidates. The index already decides the rest of the filter.
struct Check {
    evaluator: Evaluator,
    /// Whether the filter also tests the fields of a JSON payload.
    json: bool,
}

impl Check {
    /// The condition on the candidates of a filter, unless the index decides.
    fn of(filter: &Filter, json: bool) -> Option<Self> {
        filter.is_computed().then(|| Self { evaluator: filter.evaluator(), json })
    }
}

/// The content filters of all clients.
pub(crate) struct ContentIndex {
    index: Index,
    /// The owner of each filter, by its number in the index.
    owners: Vec<Option<IndexedFilter>>,
    /// The filters by key, and whether they test the payload.
    known: FilterMap,
    numbers: i64,
    events: Vec<Event>,
    /// The message of each event.
    messages: Vec<u32>,
    matches: Matches,
    /// Messages and filters that have to be evaluated.
    candidates: Vec<(u32, u32)>,
    names: Names,
    /// Whether the index is being adapted.
    is_adapting: bool,
    /// The work done for the current cohort, in bytes of JSON that take the same time to read.
    work: usize,
}

/// The attribute that holds the number of a topic filter. No filter can test it, because filters contain no U+0000. A
/// message cannot override it, because it is set last and the last value counts.
const FILTER_NUMBER: &str = "\0filter";

/// Adaptation work per added or removed filter, in filters examined: a few microseconds. An adaptation starts when as
/// many filters have changed as existed, so four would suffice.
const ADAPT_PER_CHANGE: usize = 8;
/// Adaptation work per cohort, so that an adaptation completes: about 100 µs.
const ADAPT_PER_COHORT: usize = 128;

/// Work for one cohort, in bytes of JSON: one to three milliseconds. The messages beyond it are routed in the next
/// cohorts.
const MAX_WORK: usize = 1 << 20;
/// The cost of one evaluation in bytes of JSON, and the factor by which searching a text is faster than reading JSON.
const EVALUATION_COST: usize = 256;
const SEARCH_SPEED: usize = 8;

/// Capacity that the match buffers keep between cohorts.
const MAX_RETAINED_CAPACITY: usize = 1 << 16;

impl ContentIndex {
    pub(crate) fn new() -> Self {
        // Clients choose names and constants, so the seed has to be random to prevent collisions. It affects nothing
        // else, so it is random in simulations, too.
        let seed = RandomState::new().hash_one(FILTER_NUMBER);
        Self {
            index: Index::new(Options { seed, ..Options::default() }),
            owners: Vec::new(),
            known: FilterMap::new(),
            numbers: 0,
            events: Vec::new(),
            messages: Vec::new(),
            matches: Matches::new(),
            candidates: Vec::new(),
            names: Names::default(),
            is_adapting: false,
            work: 0,
        }
    }

    /// Assigns a number to a topic filter.
    pub(crate) fn assign_number(&mut self) -> i64 {
        self.numbers += 1;
        self.numbers
    }

    /// Adds a filter under its topic filter's number, for a client or for a member of a group. Returns
    /// whether it replaces a filter of the same client and key, and whether the filter is new in the index.
    pub(crate) fn add(
        &mut self,
        (client, joining, key): (ClientIndex, Option<Joining<'_>>, &str),
        number: i64,
        content: &Content,
        own: Subscription,
    ) -> (bool, bool) {
        let key: Key = (joining.is_none().then_some(client), key.into());
        let is_node = joining.is_some_and(|joining| joining.is_node);
        let of_key = self.known.of(&key);
        if let Some((known, _)) = of_key.get(&key) {
            return match self.owners[known.index()].as_mut().map(|filter| &mut filter.owner) {
                Some(Owner::Group(group)) => (group.add(client, own, is_node), false),
                Some(owner) => {
                    // The key contains the filter, so the condition is unchanged.
                    *owner = Owner::Client(client, own);
                    (true, false)
                }
                None => (false, false),
            };
        }
        let place = Literal::Number(number.into());
        let subscription = self.index.insert_with(&content.filter, FILTER_NUMBER, &place);
        if self.owners.len() <= subscription.index() {
            self.owners.resize_with(subscription.index() + 1, || None);
        }
        let owner = match joining {
            None => Owner::Client(client, own),
            Some(Joining { group, id, .. }) => {
                let mut group = Group::new(group, id);
                group.add(client, own, is_node);
                Owner::Group(group)
            }
        };
        let check = Check::of(&content.filter, content.json);
        self.owners[subscription.index()] = Some(IndexedFilter { owner, check });
        of_key.insert(key, (subscription, content.json));
        self.is_adapting = self.index.adapt_some(ADAPT_PER_CHANGE);
        (false, true)
    }

    /// Removes a client's filter, or the client from a group. If the filter is removed from the index,
    /// returns whether it tested the payload.
    pub(crate) fn remove(
        &mut self,
        (client, is_shared, key): (ClientIndex, bool, &str),
    ) -> Option<bool> {
        let key: Key = ((!is_shared).then_some(client), key.into());
        let of_key = self.known.of(&key);
        let (known, _) = of_key.get(&key)?;
        if let Some(IndexedFilter { owner: Owner::Group(group), .. }) =
            &mut self.owners[known.index()]
            && !group.remove(client)
        {
            return None;
        }
        let (subscription, json) = of_key.remove(&key)?;
        self.index.remove(subscription);
        self.owners[subscription.index()] = None;
        self.is_adapting = self.index.adapt_some(ADAPT_PER_CHANGE);
        Some(json)
    }

    /// Finds a client's subscription that is not shared.
    pub(crate) fn find(
        &mut self,
        (client, is_shared, key): (ClientIndex, bool, &str),
    ) -> Option<Subscription> {
        let key: Key = ((!is_shared).then_some(client), key.into());
        let (known, _) = self.known.of(&key).get(&key)?;
        match self.owners[known.index()].as_ref().map(|filter| &filter.owner) {
            Some(Owner::Client(_, own)) => Some(*own),
            _ => None,
        }
    }

    /// Ends a cohort, and performs one step of a pending adaptation.
    pub(crate) fn end_cohort(&mut self) {
        self.work = 0;
        if self.is_adapting {
            self.is_adapting = self.index.adapt_some(ADAPT_PER_COHORT);
        }
    }

    /// Counts `bytes` of JSON that were read for the current cohort.
    pub(crate) fn count_read(&mut self, bytes: usize) {
        self.work += bytes;
    }

    /// Whether the current cohort has taken so long that its remaining messages should wait for the next cohort.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.work >= MAX_WORK
    }

    /// The number of events that a cohort has time for, where this one has matched `events`.
    pub(crate) fn affordable_events(&self, events: usize) -> usize {
        events * MAX_WORK / self.work.max(1)
    }

    pub(crate) fn encode_event<'m>(
        &mut self,
        attributes: impl Iterator<Item = (&'m str, Value<'m>)>,
    ) -> Event {
        let Self { index, names, .. } = self;
        let snapshot: &Snapshot = index;
        names.next(snapshot);
        let known = attributes
            .enumerate()
            .filter_map(|(at, (name, value))| Some((names.find(at, name, snapshot)?, value)));
        snapshot.event_of(known)
    }

    /// Adds a message's event for the topic filter with this number.
    pub(crate) fn add_event(&mut self, message: u32, number: i64, mut event: Event) {
        // Set last, because the last of several values counts.
        if let Some(attribute) = self.index.attribute(FILTER_NUMBER) {
            self.index.set(&mut event, attribute, number.into());
        }
        self.events.push(event);
        self.messages.push(message);
    }

    /// Matches the events of the first message, and of further messages until there are `most` matches. Returns the
    /// number of matched events, and the first message that was not matched.
    pub(crate) fn match_events(&mut self, max_matches: usize) -> (usize, Option<u32>) {
        let of_first = self.messages.partition_point(|message| *message <= self.messages[0]);
        let mut count = self.events.len();
        loop {
            self.matches.clear();
            let max_matches = if count <= of_first { usize::MAX } else { max_matches };
            if self.index.match_cohort_within(&self.events[..count], max_matches, &mut self.matches)
            {
                return (count, self.messages.get(count).copied());
            }
            // Retry with a quarter of the events, rounded to whole messages.
            let first = self.messages[count / 4];
            count = self.messages.partition_point(|message| *message < first).max(of_first);
        }
    }

    /// Calls `found` for each of the matched `messages` and each filter that it satisfies.
    pub(crate) fn for_each_match(
        &mut self,
        messages: &[Arc<Message>],
        mut found: impl FnMut(u32, &Owner),
    ) {
        let count = self.matches.all().len();
        for matched in self.matches.all() {
            let (message, at) =
                (self.messages[matched.event as usize], matched.subscription.index());
            match &self.owners[at] {
                Some(IndexedFilter { owner, check: None }) => found(message, owner),
                Some(_) => self.candidates.push((message, at as u32)),
                None => (),
            }
        }
        self.events.clear();
        self.messages.clear();
        if count > MAX_RETAINED_CAPACITY {
            self.matches = Matches::new();
        }
        if !self.candidates.is_empty() {
            self.evaluate(messages, found);
        }
    }

    /// Evaluates the candidates, one message at a time.
    #[cold]
    fn evaluate(&mut self, messages: &[Arc<Message>], mut found: impl FnMut(u32, &Owner)) {
        // Sorted, so that the order does not depend on how the index is arranged.
        self.candidates.sort_unstable();
        for candidates in self.candidates.chunk_by(|(one, _), (other, _)| one == other) {
            let message = &messages[candidates[0].0 as usize];
            let filter = |at: &u32| self.owners[*at as usize].as_ref();
            let checks = |(_, at): &(u32, u32)| filter(at).and_then(|filter| filter.check.as_ref());
            let json = candidates.iter().filter_map(checks).any(|check| check.json);
            let properties = Attributes::new(message, false);
            let with_fields = json.then(|| Attributes::new(message, true));
            let bytes = message.properties_bytes() + if json { message.payload.len() } else { 0 };
            let searched = bytes.min(Filter::MAX_SEARCHED) / SEARCH_SPEED;
            self.work += bytes + candidates.len() * (EVALUATION_COST + searched);
            let lists =
                [properties.list(), with_fields.as_ref().map(Attributes::list).unwrap_or_default()];
            let by_name = lists.each_ref().map(|list| list.iter().copied().collect::<ByName<'_>>());
            for (n, at) in candidates {
                if let Some(IndexedFilter { owner, check: Some(check) }) = filter(at)
                    && holds(&check.evaluator, &by_name[usize::from(check.json)])
                {
                    found(*n, owner);
                }
            }
        }
        self.candidates.clear();
        self.candidates.shrink_to(MAX_RETAINED_CAPACITY);
    }
}

fn holds<'a>(evaluator: &'a Evaluator, attributes: &ByName<'a>) -> bool {
    evaluator.matches_by(&|name| attributes.get(name).copied())
}

type FilterShard = HashMap<Key, (phalanx_matcher::Subscription, bool), foldhash::fast::RandomState>;

/// A sharded hash map. Growing rehashes only one shard, so no client waits for a million entries.
struct FilterMap {
    shards: Box<[FilterShard]>,
    hasher: foldhash::fast::RandomState,
}

/// A power of two. With a million filters, a shard has a few thousand entries.
const SHARDS: usize = 256;

impl FilterMap {
    fn new() -> Self {
        let shards = (0..SHARDS).map(|_| FilterShard::default()).collect();
        Self { shards, hasher: foldhash::fast::RandomState::default() }
    }

    /// The shard of a key.
    fn of(&mut self, key: &Key) -> &mut FilterShard {
        &mut self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }
}

/// A cache of attribute names by position in the message. Most messages have the same properties in the same order, and
/// comparing a short name costs a tenth of a lookup.
#[derive(Default)]
struct Names {
    known: Vec<(Box<str>, Option<Attribute>)>,
    /// The version of the index, which may add names.
    version: u64,
    messages: usize,
}

/// Interval in messages at which unknown names are cached. It limits how often unusual messages evict the common names.
const RELEARN_INTERVAL: usize = 16;
/// Limits of cached names: length, and position in the message.
const MAX_CACHED_NAME_BYTES: usize = 64;
const MAX_CACHED_NAMES: usize = 256;

impl Names {
    /// Prepares for the next message.
    fn next(&mut self, snapshot: &Snapshot) {
        self.messages = self.messages.wrapping_add(1);
        if self.version != snapshot.version() {
            self.version = snapshot.version();
            self.known.clear();
            self.messages = 0;
        }
    }

    /// The attribute with this name, at position `at` of the message.
    fn find(&mut self, at: usize, name: &str, snapshot: &Snapshot) -> Option<Attribute> {
        if let Some((known, attribute)) = self.known.get(at)
            && **known == *name
        {
            return *attribute;
        }
        let attribute = snapshot.attribute(name);
        if self.messages.is_multiple_of(RELEARN_INTERVAL)
            && name.len() <= MAX_CACHED_NAME_BYTES
            && at < MAX_CACHED_NAMES
        {
            if at < self.known.len() {
                self.known[at] = (name.into(), attribute);
            } else if at == self.known.len() {
                // Cached names are contiguous, so no name is cached after a gap.
                self.known.push((name.into(), attribute));
            }
        }
        attribute
    }
}

#[cfg(test)]
mod tests {
    use phalanx_matcher::Filter;

    use super::*;

    #[test]
    fn names_are_found_at_any_position() {
        let mut index = Index::new(Options::default());
        index.insert(&Filter::parse("a = 1 AND b = 2").unwrap());
        let mut names = Names::default();
        let long = "l".repeat(MAX_CACHED_NAME_BYTES + 1);
        let messages =
            [vec!["a", "b"], vec!["b", "a"], vec![&long, "", "a"], vec!["c"], vec!["", "b"]];
        for round in 0..3 * RELEARN_INTERVAL {
            for (n, message) in messages.iter().enumerate() {
                names.next(&index);
                for (at, name) in message.iter().enumerate() {
                    assert_eq!(names.find(at, name, &index), index.attribute(name), "{round} {n}");
                }
            }
        }
        assert_eq!(names.find(0, "c", &index), None);
        index.insert(&Filter::parse("c = 1").unwrap());
        names.next(&index);
        assert!(names.find(0, "c", &index).is_some(), "the index holds the name");
    }

    /// Removed filters leave nothing in the index: neither names and constants, nor the numbers of their topic filters.
    #[test]
    fn removed_filters_are_forgotten() {
        use phalanx_mqtt::SubscribeOptions;

        use crate::access::Covered;
        use crate::content::parse::parse_key;

        let mut content = ContentIndex::new();
        let options = SubscribeOptions::from_byte(0).unwrap();
        let own = Subscription { options, identifier: None, covered: Covered::UNKNOWN };
        let mut sizes = Vec::new();
        for n in 0..500 {
            let key = format!("t\0\0a{n} = 'x{n}' AND b > {n} AND c{n} CONTAINS 'y' OR d IS NULL");
            let parsed = parse_key(&key).unwrap().content.unwrap();
            let number = content.assign_number();
            assert_eq!(content.add((7, None, &key), number, &parsed, own), (false, true));
            assert_eq!(content.remove((7, false, &key)), Some(false));
            while content.index.adapt_some(1000) {}
            let shape = content.index.shape();
            sizes.push((shape.slots, shape.constants));
        }
        assert!(sizes.iter().all(|sizes| *sizes == (0, 0)), "{sizes:?}");
        assert!(content.index.bytes() < 1 << 16 && content.owners.len() == 1);
    }
}
