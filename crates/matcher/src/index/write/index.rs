//! The writer's interface of an index.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use super::progress::{MIN_CHANGES, Reorganization, SAMPLE};
use crate::condition::{Conjunction, Plain};
use crate::constant::{Constant, Cut};
use crate::filter::Filter;
use crate::index::code::coded::Coded;
use crate::index::options::Options;
use crate::index::rows::location::{Locations, MULTIPLE_ROWS};
use crate::index::rows::snapshot::{Snapshot, State};
use crate::index::rows::statistics::Statistics;
use crate::index::subscription::Subscription;
use crate::value::Literal;

/// An index of subscriptions by their filters, which finds the subscriptions that an event satisfies.
///
/// One thread writes. Other threads match on [`Snapshot`]s, which do not see later changes. Taking a snapshot is cheap:
/// pieces of the index are copied only when they change while a snapshot holds them. The index dereferences to its
/// latest snapshot.
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
    pub(crate) now: Snapshot,
    pub(crate) options: Options,
    pub(crate) locations: Locations,
    pub(crate) statistics: Statistics,
    /// Number of rows; a subscription has one row per conjunction.
    pub(crate) rows: usize,
    /// Number of rows whose relabelling has been paid for.
    pub(crate) credit: u64,
    /// Numbers available for reuse.
    free: Vec<u32>,
    /// Snapshots that may still be in use, oldest first, each with the numbers freed after it.
    read: VecDeque<(Weak<State>, Vec<u32>)>,
    live: usize,
    pub(crate) coded: Coded,
    /// Cuts that were given a narrow label for the current row.
    pub(crate) unplaced: Vec<(u32, Cut)>,
    /// Slots that lost their last use.
    pub(crate) unused_slots: Vec<u32>,
    pub(crate) reorganization: Reorganization,
    /// Number of rows added and removed since access predicates were chosen, and the number at which they are
    /// chosen again.
    pub(crate) changes: usize,
    pub(crate) due: usize,
}

/// Read access to the latest state.
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
            unplaced: Vec::new(),
            unused_slots: Vec::new(),
            reorganization: Reorganization::Not,
            changes: 0,
            due: MIN_CHANGES,
        }
    }

    pub(crate) fn state(&self) -> &State {
        &self.now.0
    }

    /// The state for writing; copies its outermost parts if a snapshot holds them.
    pub(crate) fn state_mut(&mut self) -> &mut State {
        let state = Arc::make_mut(&mut self.now.0);
        state.version += 1;
        state
    }

    /// The state and the locations of rows, both for writing.
    pub(crate) fn parts(&mut self) -> (&mut State, &mut Locations) {
        let state = Arc::make_mut(&mut self.now.0);
        state.version += 1;
        (state, &mut self.locations)
    }

    /// A snapshot of the current contents, for matching on other threads.
    #[must_use]
    pub fn snapshot(&mut self) -> Snapshot {
        let now = Arc::downgrade(&self.now.0);
        if !self.read.back().is_some_and(|(last, _)| last.ptr_eq(&now)) {
            self.read.push_back((now, Vec::new()));
        }
        self.now.clone()
    }

    /// Number of subscriptions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there are no subscriptions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Adds a subscription. Earlier snapshots do not contain it.
    ///
    /// If the filter [`is_computed`](Filter::is_computed), matching finds only candidates: events that may satisfy the
    /// filter.
    ///
    /// # Panics
    /// If there are already 2³¹ subscriptions.
    pub fn insert(&mut self, filter: &Filter) -> Subscription {
        self.insert_rows(filter, None)
    }

    /// Adds a subscription that requires an attribute to equal `value` in addition to its filter.
    ///
    /// ```
    /// use phalanx_matcher::{Filter, Index, Literal, Matches, Options};
    ///
    /// let filter = Filter::parse("price < 10 OR sold = TRUE")?;
    /// let mut index = Index::new(Options::default());
    /// let here = index.insert_with(&filter, "shop", &Literal::Number(7.into()));
    /// index.insert_with(&filter, "shop", &Literal::Number(8.into()));
    /// let mut matches = Matches::new();
    /// index.matches(&index.event(&[("price", 5.into()), ("shop", 7.into())]), &mut matches);
    /// assert_eq!(matches.subscriptions(), [here]);
    /// # Ok::<(), phalanx_matcher::FilterError>(())
    /// ```
    ///
    /// # Panics
    /// Like [`insert`](Index::insert).
    pub fn insert_with(&mut self, filter: &Filter, name: &str, value: &Literal) -> Subscription {
        self.insert_rows(filter, Some((name, &Constant::from(value))))
    }

    fn insert_rows(&mut self, filter: &Filter, extra: Option<(&str, &Constant)>) -> Subscription {
        let id = self.free_number();
        self.locations.start(id);
        self.live += 1;
        self.add_rows(id, filter, extra);
        Subscription(id)
    }

    /// Adds many subscriptions. Examining their common conditions first saves time and yields a better index
    /// than adding them one by one.
    pub fn insert_all(&mut self, filters: &[Filter]) -> Vec<Subscription> {
        let step = (filters.len() / SAMPLE).max(1);
        if filters.len() <= self.live {
            // The index already knows most constants, so a sample suffices. A pass over all filters would load each of
            // them from memory twice.
            let sample = filters.iter().step_by(step);
            self.label_all(sample.flat_map(|filter| filter.conjunctions().conditions()));
            let subscriptions = filters.iter().map(|filter| self.insert(filter)).collect();
            self.free_labels();
            return subscriptions;
        }
        self.label_all(filters.iter().flat_map(|filter| filter.conjunctions().conditions()));
        // The sample is large enough to decide. It is counted before any row is placed, so that its
        // statistics also serve the first rows.
        let conjunctions =
            filters.iter().step_by(step).flat_map(|filter| filter.conjunctions().iter().next());
        let mut sample = Vec::new();
        for conjunction in conjunctions {
            let mut coded = Coded::default();
            self.code(conjunction, &mut coded);
            self.statistics.count_equals(&coded.equals);
            sample.push(coded);
        }
        self.unplaced.clear();
        self.choose_schemas(&sample, self.live + filters.len());
        let subscriptions = filters.iter().map(|filter| self.insert(filter)).collect();
        sample.iter().for_each(|coded| self.statistics.uncount_equals(&coded.equals));
        self.free_labels();
        self.mark_arranged();
        subscriptions
    }

    /// Replaces the filter of a subscription. Snapshots contain either the old or the new filter.
    ///
    /// # Panics
    /// If there is no such subscription.
    pub fn replace(&mut self, subscription: Subscription, filter: &Filter) {
        let Subscription(id) = subscription;
        assert!(self.locations.is_live(id), "{subscription:?} is not in this index");
        self.remove_rows(id);
        self.add_rows(id, filter, None);
    }

    /// Removes a subscription; returns false if there is none. Earlier snapshots still contain it.
    pub fn remove(&mut self, subscription: Subscription) -> bool {
        let Subscription(id) = subscription;
        if !self.locations.is_live(id) {
            return false;
        }
        self.remove_rows(id);
        self.locations.free(id);
        self.live -= 1;
        // Readers of earlier snapshots still hold the number.
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
            assert!(next < MULTIPLE_ROWS, "2^31 subscriptions; make another index");
            next
        })
    }

    /// Adds the rows of a filter, each with the additional equality.
    fn add_rows(&mut self, id: u32, filter: &Filter, extra: Option<(&str, &Constant)>) {
        let mut coded = std::mem::take(&mut self.coded);
        let all = filter.conjunctions();
        let flag = if all.len() > 1 { MULTIPLE_ROWS } else { 0 };
        let extra = extra.filter(|_| all.len() > 0);
        let code = extra.map(|(name, constant)| self.number(name, constant));
        let tested = extra.filter(|(name, _)| all.names.iter().any(|other| **other == **name));
        for conjunction in all.iter() {
            if tested.is_some_and(|of| excludes(conjunction, of)) {
                continue;
            }
            coded.clear();
            self.code(conjunction, &mut coded);
            if let Some(code) = code.filter(|code| !coded.equals.contains(code)) {
                coded.equals.insert(0, code);
            }
            self.place(id | flag, &coded);
            self.free_unplaced();
        }
        self.coded = coded;
        if let Some((slot, id)) = code.filter(|_| tested.is_some()) {
            self.free_if_unused(slot, id);
        }
    }

    /// The memory used for matching, in bytes: pieces and directories.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.state().bytes() + self.locations.bytes() + self.statistics.bytes()
    }
}

/// Whether a conjunction requires a different constant of this type for the attribute.
fn excludes(conjunction: Conjunction<'_>, (name, constant): (&str, &Constant)) -> bool {
    conjunction.conditions().any(|(other, plain)| {
        matches!(plain, Plain::Equal(own) if other == name && own.kind() == constant.kind() && own != constant)
    })
}
