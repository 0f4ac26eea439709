//! All filters on what messages carry, in one index: which of them, of the topic filters that a message is
//! for, does it satisfy?
//!
//! Each topic filter with such subscriptions has a number, and each filter in the index asks for its topic
//! filter's number besides what it asks for itself. A message is an event for each topic filter that it is for, and
//! all events of a cohort are matched at once.

use std::collections::HashMap;

use phalanx_matcher::{Event, Index, Matches, Options, Value};

use crate::content::wanted::{Content, NUMBER};
use crate::routing::subscribers::{ClientIndex, Subscription};

type Key = (ClientIndex, Box<str>);

/// The filters of all clients.
pub(crate) struct ContentIndex {
    index: Index,
    /// Whose they are, by their numbers in the index.
    owners: Vec<Option<(ClientIndex, Subscription)>>,
    /// And by their keys, with whether they look at the payload.
    known: HashMap<Key, (phalanx_matcher::Subscription, bool), foldhash::fast::RandomState>,
    numbers: i64,
    events: Vec<Event>,
    /// The message that each event is of.
    messages: Vec<u32>,
    matches: Matches,
    /// How many there are when they are arranged anew.
    arrange_at: usize,
}

/// Arranging takes about a microsecond for each filter. So much is done at once, and more not yet.
const ARRANGED: std::ops::Range<usize> = 64..16_384;

impl ContentIndex {
    pub(crate) fn new() -> Self {
        Self {
            index: Index::new(Options::default()),
            owners: Vec::new(),
            known: HashMap::default(),
            numbers: 0,
            events: Vec::new(),
            messages: Vec::new(),
            matches: Matches::new(),
            arrange_at: ARRANGED.start,
        }
    }

    /// A number for a topic filter that had none.
    pub(crate) fn number(&mut self) -> i64 {
        self.numbers += 1;
        self.numbers
    }

    /// Files a filter under its topic filter's number. Whether it replaces one of the same key.
    pub(crate) fn add(
        &mut self,
        key: Key,
        number: i64,
        content: &Content,
        own: Subscription,
    ) -> bool {
        let client = key.0;
        if let Some((known, _)) = self.known.get(&key) {
            self.owners[known.index()] = Some((client, own));
            return true;
        }
        let subscription = self.index.insert(&content.numbered(number));
        if self.owners.len() <= subscription.index() {
            self.owners.resize(subscription.index() + 1, None);
        }
        self.owners[subscription.index()] = Some((client, own));
        self.known.insert(key, (subscription, content.json));
        if self.index.len() >= self.arrange_at && ARRANGED.contains(&self.index.len()) {
            self.index.adapt();
            self.arrange_at *= 4;
        }
        false
    }

    /// Takes a filter away, and says whether it has looked at the payload; none if it was not there.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<bool> {
        let (subscription, json) = self.known.remove(key)?;
        self.index.remove(subscription);
        self.owners[subscription.index()] = None;
        Some(json)
    }

    /// Adds a message's event for the topic filter of this number.
    pub(crate) fn ask(&mut self, message: u32, number: i64, attributes: &[(&str, Value<'_>)]) {
        let snapshot: &phalanx_matcher::Snapshot = &self.index;
        let number = (NUMBER, Value::from(number));
        let known = attributes
            .iter()
            .chain([&number])
            .filter_map(|(name, value)| Some((snapshot.attribute(name)?, *value)));
        self.events.push(snapshot.event_of(known));
        self.messages.push(message);
    }

    /// Shows `found` for each message whose filters it satisfies.
    pub(crate) fn answer(&mut self, mut found: impl FnMut(u32, ClientIndex, Subscription)) {
        if self.events.is_empty() {
            return;
        }
        self.matches.clear();
        self.index.match_cohort(&self.events, &mut self.matches);
        for matched in self.matches.all() {
            if let Some((client, own)) = self.owners[matched.subscription.index()] {
                found(self.messages[matched.event as usize], client, own);
            }
        }
        self.events.clear();
        self.messages.clear();
    }
}
