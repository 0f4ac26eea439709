//! All filters on what messages carry, in one index: which of them, of the topic filters that a message is
//! for, does it satisfy?
//!
//! Each topic filter with such subscriptions has a number, and each filter in the index asks for its topic
//! filter's number besides what it asks for itself. A message is an event for each topic filter that it is for, and
//! all events of a cohort are matched at once.

use std::collections::HashMap;
use std::hash::BuildHasher;

use phalanx_matcher::{Attribute, Event, Index, Matches, Options, Snapshot, Value};

use crate::content::parse::{Content, NUMBER};
use crate::routing::subscribers::{ClientIndex, Group, Subscription};

/// Whose filter it is, and its subscription's key. A group has one for all its members.
pub(crate) type Key = (Option<ClientIndex>, Box<str>);

/// Who gets what a filter matches.
pub(crate) enum Owner {
    Client(ClientIndex, Subscription),
    /// One of its members.
    Group(Group),
}

/// The filters of all clients.
pub(crate) struct ContentIndex {
    index: Index,
    /// Whose they are, by their numbers in the index.
    owners: Vec<Option<Owner>>,
    /// And by their keys, with whether they look at the payload.
    known: Known,
    numbers: i64,
    events: Vec<Event>,
    /// The message that each event is of.
    messages: Vec<u32>,
    matches: Matches,
    names: Names,
    /// Whether filters are still being arranged anew.
    is_arranging: bool,
}

/// What is paid with each filter that comes or goes for arranging all anew, in filters that are looked at: some
/// microseconds. As it begins when as much has changed as there was, four would do.
const ADAPT_PER_CHANGE: usize = 8;
/// And with each cohort while it goes on, so that it comes to its end: about a tenth of a millisecond.
const ADAPT_PER_COHORT: usize = 128;

impl ContentIndex {
    pub(crate) fn new() -> Self {
        Self {
            index: Index::new(Options::default()),
            owners: Vec::new(),
            known: Known::new(),
            numbers: 0,
            events: Vec::new(),
            messages: Vec::new(),
            matches: Matches::new(),
            names: Names::default(),
            is_arranging: false,
        }
    }

    /// A number for a topic filter that had none.
    pub(crate) fn number(&mut self) -> i64 {
        self.numbers += 1;
        self.numbers
    }

    /// Files a filter under its topic filter's number, for a client, or for a member of the `group` of this name. Whether it
    /// replaces one of the same key and client; and whether the filter is new.
    pub(crate) fn add(
        &mut self,
        (client, group, key): (ClientIndex, Option<&str>, &str),
        number: i64,
        content: &Content,
        own: Subscription,
    ) -> (bool, bool) {
        let key: Key = (group.is_none().then_some(client), key.into());
        let of_key = self.known.of(&key);
        if let Some((known, _)) = of_key.get(&key) {
            let owner = &mut self.owners[known.index()];
            if let Some(Owner::Group(group)) = owner {
                return (group.add(client, own), false);
            }
            *owner = Some(Owner::Client(client, own));
            return (true, false);
        }
        let subscription = self.index.insert(&content.numbered(number));
        if self.owners.len() <= subscription.index() {
            self.owners.resize_with(subscription.index() + 1, || None);
        }
        self.owners[subscription.index()] = Some(match group {
            None => Owner::Client(client, own),
            Some(name) => {
                let mut group = Group::new(name);
                group.add(client, own);
                Owner::Group(group)
            }
        });
        of_key.insert(key, (subscription, content.json));
        self.is_arranging = self.index.adapt_some(ADAPT_PER_CHANGE);
        (false, true)
    }

    /// Takes a client's filter away, or the client from a group. If the filter is gone then: whether it has looked at the
    /// payload.
    pub(crate) fn remove(
        &mut self,
        (client, is_shared, key): (ClientIndex, bool, &str),
    ) -> Option<bool> {
        let key: Key = ((!is_shared).then_some(client), key.into());
        let of_key = self.known.of(&key);
        let (known, _) = of_key.get(&key)?;
        if let Some(Owner::Group(group)) = &mut self.owners[known.index()]
            && !group.remove(client)
        {
            return None;
        }
        let (subscription, json) = of_key.remove(&key)?;
        self.index.remove(subscription);
        self.owners[subscription.index()] = None;
        self.is_arranging = self.index.adapt_some(ADAPT_PER_CHANGE);
        Some(json)
    }

    /// Goes on with arranging the filters anew, if that has begun: for a moment.
    pub(crate) fn arrange(&mut self) {
        if self.is_arranging {
            self.is_arranging = self.index.adapt_some(ADAPT_PER_COHORT);
        }
    }

    /// Codes what a message carries.
    pub(crate) fn code<'m>(
        &mut self,
        carried: impl Iterator<Item = (&'m str, Value<'m>)>,
    ) -> Event {
        let Self { index, names, .. } = self;
        let snapshot: &Snapshot = index;
        names.next(snapshot);
        let known = carried
            .enumerate()
            .filter_map(|(at, (name, value))| Some((names.find(at, name, snapshot)?, value)));
        snapshot.event_of(known)
    }

    /// Adds a message's event for the topic filter of this number.
    pub(crate) fn ask(&mut self, message: u32, number: i64, mut event: Event) {
        // In the end, as of several of one name the last counts.
        if let Some(attribute) = self.index.attribute(NUMBER) {
            self.index.set(&mut event, attribute, number.into());
        }
        self.events.push(event);
        self.messages.push(message);
    }

    /// Shows `found` for each message whose filters it satisfies.
    pub(crate) fn answer(&mut self, mut found: impl FnMut(u32, &Owner)) {
        if self.events.is_empty() {
            return;
        }
        self.matches.clear();
        self.index.match_cohort(&self.events, &mut self.matches);
        for matched in self.matches.all() {
            if let Some(owner) = &self.owners[matched.subscription.index()] {
                found(self.messages[matched.event as usize], owner);
            }
        }
        self.events.clear();
        self.messages.clear();
    }
}

type KnownShard = HashMap<Key, (phalanx_matcher::Subscription, bool), foldhash::fast::RandomState>;

/// A table in shards: when one needs more room, only what is in it is moved, and nobody waits for the move of a million.
struct Known {
    shards: Box<[KnownShard]>,
    hasher: foldhash::fast::RandomState,
}

/// A power of two: each has some thousands of a million.
const SHARDS: usize = 256;

impl Known {
    fn new() -> Self {
        let shards = (0..SHARDS).map(|_| KnownShard::default()).collect();
        Self { shards, hasher: foldhash::fast::RandomState::default() }
    }

    /// The share that a key is in.
    fn of(&mut self, key: &Key) -> &mut KnownShard {
        &mut self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }
}

/// What messages carry, mostly they carry in the same order: the names of one, and what the index knows them as,
/// by their places. To compare a short name costs a tenth of finding it.
#[derive(Default)]
struct Names {
    known: Vec<(Box<str>, Option<Attribute>)>,
    /// Of the index, which may learn a name.
    version: u64,
    messages: usize,
}

/// Every so many messages the names are those of another: where messages differ, the others do not pay for it.
const RELEARN_INTERVAL: usize = 16;
/// Longer names, and those in later places, are found each time.
const MAX_CACHED_NAME_BYTES: usize = 64;
const MAX_CACHED_NAMES: usize = 256;

impl Names {
    /// Another message.
    fn next(&mut self, snapshot: &Snapshot) {
        self.messages = self.messages.wrapping_add(1);
        if self.version != snapshot.version() {
            self.version = snapshot.version();
            self.known.clear();
            self.messages = 0;
        }
    }

    /// The attribute of the name in a message's place numbered `at`.
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
                // Behind a place that is kept for none, none is kept.
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
    fn names_are_found_wherever_they_stand() {
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
        assert!(names.find(0, "c", &index).is_some(), "the index has learned it");
    }
}
