//! The one who changes an index.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use super::arranging::{Arranging, FEWEST, SAMPLE};
use super::coding::Coded;
use super::location::{Locations, SEVERAL};
use super::options::Options;
use super::snapshot::{Snapshot, State};
use super::statistics::Statistics;
use crate::Filter;

/// A subscription's number in its [`Index`].
///
/// A number is given again only when its subscription has been removed and no [`Snapshot`] is left in which
/// it could match: use the numbers of an event's matches before you drop the snapshot that gave them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subscription(pub(crate) u32);

impl Subscription {
    /// The number; they are given from 0, without gaps.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Subscriptions, indexed by their filters: tells which of them an event satisfies.
///
/// One thread writes. Others match on [`Snapshot`]s, which see nothing of what is changed later; taking one
/// costs little, and pieces of the index are copied only as they change while a snapshot holds them. The index
/// is also its own latest snapshot.
///
/// ```
/// use phalanx_matcher::{Filter, Index, Matches, Options};
///
/// let mut index = Index::new(Options::default());
/// let cheap = index.insert(&Filter::parse("symbol = 'ACME' AND price < 10")?);
/// let any = index.insert(&Filter::parse("symbol IN ('ACME', 'EVIL')")?);
///
/// let mut matches = Matches::new();
/// let event = index.event(&[("symbol", "ACME".into()), ("price", 12.into())]);
/// index.matches(&event, &mut matches);
/// assert_eq!(matches.subscriptions(), [any]);
///
/// index.replace(cheap, &Filter::parse("price > 11")?);
/// let event = index.event(&[("price", 12.into())]);
/// matches.clear();
/// index.matches(&event, &mut matches);
/// assert_eq!(matches.subscriptions(), [cheap]);
/// # Ok::<(), phalanx_matcher::FilterError>(())
/// ```
#[derive(Debug)]
pub struct Index {
    now: Snapshot,
    pub(crate) options: Options,
    pub(crate) locations: Locations,
    pub(crate) statistics: Statistics,
    /// Rows, of which a subscription has one for each of its conjunctions.
    pub(crate) rows: usize,
    /// Rows whose relabelling has been paid for.
    pub(crate) credit: u64,
    /// Numbers that may be given again.
    free: Vec<u32>,
    /// Snapshots that may live, the oldest first, and the numbers freed since each.
    read: VecDeque<(Weak<State>, Vec<u32>)>,
    live: usize,
    pub(crate) coded: Coded,
    pub(crate) arranging: Arranging,
    /// Rows that came and went since access predicates were chosen; and after how many they are again.
    pub(crate) changes: usize,
    pub(crate) due: usize,
}

/// Reading is done on the latest state.
impl Deref for Index {
    type Target = Snapshot;

    fn deref(&self) -> &Snapshot {
        &self.now
    }
}

impl Index {
    /// An index without subscriptions.
    #[must_use]
    pub fn new(options: Options) -> Index {
        Index {
            now: Snapshot(Arc::new(State::new(options))),
            options,
            locations: Locations::default(),
            statistics: Statistics::default(),
            rows: 0,
            credit: 0,
            free: Vec::new(),
            read: VecDeque::new(),
            live: 0,
            coded: Coded::default(),
            arranging: Arranging::Not,
            changes: 0,
            due: FEWEST,
        }
    }

    pub(crate) fn state(&self) -> &State {
        &self.now.0
    }

    /// The state to change: a copy of its outermost parts if somebody reads it.
    pub(crate) fn state_mut(&mut self) -> &mut State {
        let state = Arc::make_mut(&mut self.now.0);
        state.version += 1;
        state
    }

    /// The state and the rows' places, both to change.
    pub(crate) fn parts(&mut self) -> (&mut State, &mut Locations) {
        let state = Arc::make_mut(&mut self.now.0);
        state.version += 1;
        (state, &mut self.locations)
    }

    /// What the index is now, to match on elsewhere.
    #[must_use]
    pub fn snapshot(&mut self) -> Snapshot {
        let now = Arc::downgrade(&self.now.0);
        if !self.read.back().is_some_and(|(last, _)| last.ptr_eq(&now)) {
            self.read.push_back((now, Vec::new()));
        }
        self.now.clone()
    }

    /// How many subscriptions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Adds a subscription. Snapshots that were taken before do not have it.
    ///
    /// # Panics
    /// When there are 2³¹ subscriptions.
    pub fn insert(&mut self, filter: &Filter) -> Subscription {
        let id = self.free_number();
        self.locations.start(id);
        self.live += 1;
        self.add_rows(id, filter);
        Subscription(id)
    }

    /// Adds many at once: what they have in common is looked at first, which saves time and makes the
    /// better index.
    pub fn insert_all(&mut self, filters: &[Filter]) -> Vec<Subscription> {
        let step = (filters.len() / SAMPLE).max(1);
        if filters.len() <= self.live {
            // Most constants are known. To look at all filters first would fetch them from memory twice.
            let sample = filters.iter().step_by(step);
            self.label_all(sample.flat_map(Filter::conjunctions).flatten());
            return filters.iter().map(|filter| self.insert(filter)).collect();
        }
        self.label_all(filters.iter().flat_map(Filter::conjunctions).flatten());
        // So many that they decide. A sample is counted before it is placed, so that the first of all are placed by
        // what it says.
        let conjunctions =
            filters.iter().step_by(step).flat_map(|filter| filter.conjunctions().first());
        let mut sample = Vec::new();
        for conjunction in conjunctions {
            let mut coded = Coded::default();
            self.code(conjunction, &mut coded);
            self.statistics.count(&coded.equals);
            sample.push(coded);
        }
        self.choose_schemas(&sample, self.live + filters.len());
        let subscriptions = filters.iter().map(|filter| self.insert(filter)).collect();
        sample.iter().for_each(|coded| self.statistics.uncount(&coded.equals));
        self.is_arranged();
        subscriptions
    }

    /// Gives a subscription another filter. It matches by the old one or by the new one, never by none.
    ///
    /// # Panics
    /// If there is no such subscription.
    pub fn replace(&mut self, subscription: Subscription, filter: &Filter) {
        let Subscription(id) = subscription;
        assert!(self.locations.is_live(id), "{subscription:?} is not in this index");
        self.remove_rows(id);
        self.add_rows(id, filter);
    }

    /// Removes a subscription; false if there is no such. Snapshots that were taken before still have it.
    pub fn remove(&mut self, subscription: Subscription) -> bool {
        let Subscription(id) = subscription;
        if !self.locations.is_live(id) {
            return false;
        }
        self.remove_rows(id);
        self.locations.free(id);
        self.live -= 1;
        // Whoever reads the state from before has it still.
        match self.read.back_mut() {
            Some((_, freed)) => freed.push(id),
            None => self.free.push(id),
        }
        true
    }

    fn free_number(&mut self) -> u32 {
        while let Some((oldest, _)) = self.read.front() {
            if oldest.strong_count() > 0 {
                break;
            }
            let freed = self.read.pop_front().map(|(_, freed)| freed);
            self.free.extend(freed.into_iter().flatten());
        }
        self.free.pop().unwrap_or_else(|| {
            let next = self.locations.len() as u32;
            assert!(next < SEVERAL, "2^31 subscriptions; make another index");
            next
        })
    }

    fn add_rows(&mut self, id: u32, filter: &Filter) {
        let mut coded = std::mem::take(&mut self.coded);
        let flag = if filter.conjunctions().len() > 1 { SEVERAL } else { 0 };
        for conjunction in filter.conjunctions() {
            coded.clear();
            self.code(conjunction, &mut coded);
            self.place(id | flag, &coded);
        }
        self.coded = coded;
    }

    /// Bytes that the index holds for matching: pieces, and what leads to them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.state().bytes() + self.locations.bytes() + self.statistics.bytes()
    }
}
