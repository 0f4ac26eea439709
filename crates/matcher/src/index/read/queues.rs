//! Queues of events at the pieces of an index, so that a piece is read once for many events.
//!
//! An event is queued at each piece that it touches, and is done when all of these have run. A piece runs
//! when its queue reaches the threshold *worth*, or when the caller asks: because an event has waited long
//! enough, or because the processor is idle. Events leave in the order in which they entered.
//!
//! Queues do not pay off for every access predicate; [`super::choice`] decides.

use std::borrow::Borrow;
use std::collections::VecDeque;

use super::choice::Choice;
use super::matching::Scratch;
use crate::index::code::event::{Event, Line};
use crate::index::rows::location::MULTIPLE_ROWS;
use crate::index::rows::snapshot::Snapshot;
use crate::index::subscription::Subscription;

/// Number of queued events per cluster at which a piece runs. Reading the cluster then costs little per event; with a
/// smaller number, the remaining events would read the cluster again.
const PAIRS_PER_CLUSTER: usize = 256;
/// Flag in an event's word, next to the number of pieces at which the event still waits: a subscription may have been
/// found twice.
const TWICE: u32 = 1 << 31;

/// Events that are being matched on one [`Snapshot`]. The caller recognizes an event by its `T`, which contains it.
///
/// ```
/// use phalanx_matcher::{Event, Filter, Index, Options, Queues};
///
/// let mut index = Index::new(Options::default());
/// let low = index.insert(&Filter::parse("level < 3")?);
/// let all = index.insert(&Filter::parse("level IS NOT NULL")?);
///
/// let mut queues: Queues<Event> = Queues::new(index.snapshot(), 64);
/// for level in [1, 5] {
///     let event = queues.snapshot().event(&[("level", level.into())]);
///     queues.push(event);
/// }
/// // No more events come, so run the waiting ones, piece by piece.
/// while queues.run_oldest().is_some() {}
/// let mut found = Vec::new();
/// queues.settle(|_event, subscriptions| {
///     subscriptions.sort();
///     found.push(subscriptions.clone());
/// });
/// assert_eq!(found, [vec![low, all], vec![all]]);
/// # Ok::<(), phalanx_matcher::FilterError>(())
/// ```
#[derive(Debug)]
pub struct Queues<T> {
    snapshot: Snapshot,
    /// Ring buffers: an event has the same position in all of them. The parts that each piece reads are short and
    /// stored separately.
    items: Vec<Option<T>>,
    coded: Vec<Line>,
    words: Vec<u32>,
    found: Vec<Vec<Subscription>>,
    capacity: usize,
    /// Positions of the oldest event and of the next one, and the number of events here.
    oldest: usize,
    next: usize,
    len: usize,
    pieces: Vec<Queue>,
    /// Pieces at which events wait, oldest first. Some may have run since.
    touched: VecDeque<u32>,
    /// Pieces whose queue reached `threshold`.
    ready: VecDeque<u32>,
    /// By schema.
    choices: Vec<Choice>,
    scratch: Scratch,
}

/// The events that wait at a piece.
#[derive(Clone, Debug, Default)]
struct Queue {
    /// For each event: its cluster in the high word, and its position in the low word.
    pairs: Vec<u64>,
    /// Queue length at which the piece runs.
    threshold: usize,
    is_touched: bool,
    is_ready: bool,
}

impl Queue {
    /// Whether the last push made the queue non-empty, or made it reach `threshold`.
    #[inline]
    fn has_changed(&self) -> bool {
        self.pairs.len() == 1 || self.pairs.len() == self.threshold
    }
}

/// Adds a subscription to the matches of an event.
#[inline]
fn note(word: &mut u32, found: &mut Vec<Subscription>, id: u32) {
    if id & MULTIPLE_ROWS != 0 {
        *word |= TWICE;
    }
    found.push(Subscription(id & !MULTIPLE_ROWS));
}

impl<T: Borrow<Event>> Queues<T> {
    /// Empty queues for at most `capacity` events at a time.
    ///
    /// # Panics
    /// If `capacity` is zero or does not fit into 32 bits.
    #[must_use]
    pub fn new(snapshot: Snapshot, capacity: usize) -> Queues<T> {
        assert!(
            capacity > 0 && u32::try_from(capacity).is_ok(),
            "the capacity must be 1 to 2³²−1 events"
        );
        let mut queues = Queues {
            snapshot: snapshot.clone(),
            items: Vec::new(),
            coded: Vec::new(),
            words: Vec::new(),
            found: Vec::new(),
            capacity,
            oldest: 0,
            next: 0,
            len: 0,
            pieces: Vec::new(),
            touched: VecDeque::new(),
            ready: VecDeque::new(),
            choices: Vec::new(),
            scratch: Scratch::default(),
        };
        queues.adopt(snapshot);
        queues
    }

    /// The snapshot that codes and matches the events.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Number of events in the queues, including those that are done but not [settled](Queues::settle).
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether another event may be pushed.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.len() < self.capacity
    }

    /// Number of pieces that reached their threshold.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Number of pieces at which events may wait. Some may have run since.
    #[must_use]
    pub fn touched(&self) -> usize {
        self.touched.len()
    }

    /// Adds an event and queues it at the pieces that it touches. Where queueing does not pay off, the event is matched
    /// immediately.
    ///
    /// # Panics
    /// If there is no room, or another snapshot coded the event.
    pub fn push(&mut self, item: T) {
        assert!(self.has_room(), "the queues hold {} events already; settle some", self.capacity);
        let (state, event) = (&*self.snapshot.0, item.borrow());
        state.check_version(event);
        let place = self.next;
        if place == self.items.len() {
            self.items.push(None);
            self.coded.push(event.line);
            self.words.push(0);
            self.found.push(Vec::new());
        }
        self.coded[place] = event.line;
        let mut word = 0;
        for (schema, choice) in state.schemas.iter().zip(&mut self.choices) {
            let Some(key) = schema.key(event) else { continue };
            for at in &schema.buckets[schema.bucket(key)].pieces {
                let piece = &*state.pieces[*at as usize];
                let Some(cluster) = piece.map.get(&key) else { continue };
                if !choice.queues() {
                    let found = &mut self.found[place];
                    let cluster = &piece.clusters[*cluster as usize];
                    state.check(cluster, event, |id| note(&mut word, found, id));
                    continue;
                }
                word += 1;
                let queue = &mut self.pieces[*at as usize];
                queue.pairs.push(u64::from(*cluster) << 32 | place as u64);
                if queue.has_changed() {
                    if !std::mem::replace(&mut queue.is_touched, true) {
                        self.touched.push_back(*at);
                    }
                    if queue.pairs.len() == queue.threshold
                        && !std::mem::replace(&mut queue.is_ready, true)
                    {
                        self.ready.push_back(*at);
                    }
                }
            }
        }
        self.words[place] = word;
        self.items[place] = Some(item);
        self.next = self.after(place);
        self.len += 1;
    }

    /// The position after `place`.
    #[inline]
    fn after(&self, place: usize) -> usize {
        if place + 1 == self.capacity { 0 } else { place + 1 }
    }

    /// Runs a piece that reached its threshold; `None` if there is none. Returns the work done: the number of
    /// comparisons of a 64-byte line with an event, about a nanosecond each.
    pub fn run_ready(&mut self) -> Option<usize> {
        let piece = self.ready.pop_front()?;
        self.pieces[piece as usize].is_ready = false;
        Some(self.run(piece as usize))
    }

    /// Runs the piece whose events have waited longest, like [`run_ready`](Queues::run_ready); `None` if no
    /// event waits.
    pub fn run_oldest(&mut self) -> Option<usize> {
        while let Some(piece) = self.touched.pop_front() {
            let queue = &mut self.pieces[piece as usize];
            queue.is_touched = false;
            if !queue.pairs.is_empty() {
                return Some(self.run(piece as usize));
            }
        }
        None
    }

    fn run(&mut self, at: usize) -> usize {
        let state = &*self.snapshot.0;
        let piece = &*state.pieces[at];
        let Queues { items, coded, words, found, scratch, .. } = self;
        let pairs = &mut self.pieces[at].pairs;
        let line = |place: u32| &coded[place as usize];
        let event =
            |place: u32| items[place as usize].as_ref().expect("the event is queued").borrow();
        let read = state.match_pairs(piece, pairs, line, event, scratch, &mut |place, id| {
            note(&mut words[place as usize], &mut found[place as usize], id);
        });
        self.choices[piece.schema as usize].note(pairs.len(), read);
        for pair in pairs.drain(..) {
            words[pair as u32 as usize] -= 1;
        }
        read.compared
    }

    /// Passes the events that are done to `each`, in the order of their arrival, up to the first that still
    /// waits. Each comes with the subscriptions that it satisfies, without duplicates and in no order. The
    /// vector is reused unless `each` takes it.
    pub fn settle(&mut self, mut each: impl FnMut(T, &mut Vec<Subscription>)) {
        while self.len > 0 {
            let place = self.oldest;
            let word = self.words[place];
            if word & !TWICE > 0 {
                return;
            }
            self.oldest = self.after(place);
            self.len -= 1;
            let item = self.items[place].take().expect("the event is in the queues");
            let found = &mut self.found[place];
            if word & TWICE != 0 {
                found.sort_unstable();
                found.dedup();
            }
            each(item, found);
            found.clear();
        }
    }

    /// Replaces the snapshot.
    ///
    /// # Panics
    /// If an event is still in the queues: [run](Queues::run_oldest) and settle all events first.
    pub fn adopt(&mut self, snapshot: Snapshot) {
        assert!(self.is_empty(), "the queues hold events of another snapshot");
        self.ready.clear();
        self.touched.clear();
        self.pieces.truncate(snapshot.0.pieces.len());
        self.pieces.resize_with(snapshot.0.pieces.len(), Queue::default);
        for (queue, piece) in self.pieces.iter_mut().zip(&snapshot.0.pieces) {
            (queue.is_touched, queue.is_ready) = (false, false);
            queue.threshold = PAIRS_PER_CLUSTER * piece.clusters.len();
        }
        self.choices.resize_with(snapshot.0.schemas.len(), Choice::default);
        self.snapshot = snapshot;
    }
}
