//! Events that wait at the pieces of an index, so that a piece is read once for many.
//!
//! An event is queued at each piece that it touches, and done when all of these have run. A piece is run
//! when its queue is *worth* it, or when the caller says so: because an event has waited long enough, or
//! because there is nothing better to do. Events come out in the order in which they went in.
//!
//! Not every access predicate is worth queues: [`super::choice`] says which.

use std::borrow::Borrow;
use std::collections::VecDeque;

use super::choice::Choice;
use super::event::{Event, Line};
use super::location::SEVERAL;
use super::snapshot::Snapshot;
use super::writer::Subscription;

/// Events for each cluster of a piece that make the piece worth running: with so many, what it takes to
/// read the cluster hardly counts.
const WORTH: usize = 128;

/// Events on their way through one [`Snapshot`]. `T` is what the caller knows an event by, and has it inside.
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
/// // Nothing else is to come: what waits is run, piece by piece.
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
    /// A ring: an event's place is its number modulo the capacity.
    items: Vec<Option<T>>,
    found: Vec<Found>,
    capacity: usize,
    /// Numbers of the oldest event that is here, and of the next to come.
    oldest: u64,
    next: u64,
    pieces: Vec<Queue>,
    /// Pieces at which events wait, and perhaps some at which none wait any more. The oldest first.
    touched: VecDeque<u32>,
    /// Pieces that are worth running.
    ready: VecDeque<u32>,
    /// By schema.
    choices: Vec<Choice>,
    lines: Vec<Line>,
}

/// The events that wait at a piece.
#[derive(Clone, Debug, Default)]
struct Queue {
    /// For each its cluster, in the high word, and its place.
    pairs: Vec<u64>,
    is_touched: bool,
    is_ready: bool,
}

/// What is known of an event so far.
#[derive(Clone, Debug, Default)]
struct Found {
    /// Pieces that it still waits at.
    left: u32,
    /// Whether a subscription may be among them twice.
    several: bool,
    subscriptions: Vec<Subscription>,
}

impl Found {
    #[inline]
    fn add(&mut self, id: u32) {
        self.several |= id & SEVERAL != 0;
        self.subscriptions.push(Subscription(id & !SEVERAL));
    }
}

impl<T: Borrow<Event>> Queues<T> {
    /// Empty queues for at most `capacity` events at a time.
    ///
    /// # Panics
    /// If `capacity` is zero or does not fit into 32 bits.
    #[must_use]
    pub fn new(snapshot: Snapshot, capacity: usize) -> Queues<T> {
        assert!(capacity > 0 && u32::try_from(capacity).is_ok(), "1 to 2³²−1 events at a time");
        let mut queues = Queues {
            snapshot: snapshot.clone(),
            items: Vec::new(),
            found: Vec::new(),
            capacity,
            oldest: 0,
            next: 0,
            pieces: Vec::new(),
            touched: VecDeque::new(),
            ready: VecDeque::new(),
            choices: Vec::new(),
            lines: Vec::new(),
        };
        queues.adopt(snapshot);
        queues
    }

    /// What events are coded by and matched with.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// How many events are here, those included that are done and not [settled](Queues::settle).
    #[must_use]
    pub fn len(&self) -> usize {
        (self.next - self.oldest) as usize
    }

    /// Whether no event is here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether another event may be pushed.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.len() < self.capacity
    }

    /// How many pieces are worth running now.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// How many pieces events wait at; some may have run already, so that none waits there any more.
    #[must_use]
    pub fn touched(&self) -> usize {
        self.touched.len()
    }

    /// Takes an event in, and queues it at the pieces that it touches. Where queueing does not pay, it is matched
    /// at once.
    ///
    /// # Panics
    /// If there is no room, or another snapshot has coded the event.
    pub fn push(&mut self, item: T) {
        assert!(self.has_room(), "{} events are here already; settle some", self.capacity);
        let place = (self.next % self.capacity as u64) as usize;
        if place == self.items.len() {
            self.items.push(None);
            self.found.push(Found::default());
        }
        let (state, event) = (&*self.snapshot.0, item.borrow());
        state.owns(event);
        let found = &mut self.found[place];
        for (schema, choice) in state.schemas.iter().zip(&mut self.choices) {
            let Some(key) = schema.key(event) else { continue };
            for at in &schema.buckets[schema.bucket(key)].pieces {
                let piece = &*state.pieces[*at as usize];
                let Some(cluster) = piece.map.get(&key) else { continue };
                if !choice.queues() {
                    state.check(&piece.clusters[*cluster as usize], event, |id| found.add(id));
                    continue;
                }
                found.left += 1;
                let queue = &mut self.pieces[*at as usize];
                queue.pairs.push(u64::from(*cluster) << 32 | place as u64);
                if !std::mem::replace(&mut queue.is_touched, true) {
                    self.touched.push_back(*at);
                }
                if queue.pairs.len() >= WORTH * piece.clusters.len() && !queue.is_ready {
                    queue.is_ready = true;
                    self.ready.push_back(*at);
                }
            }
        }
        self.items[place] = Some(item);
        self.next += 1;
    }

    /// Runs a piece that is worth it; none if there is no such. Returns how much work it was: how often a line
    /// of 64 bytes was compared with an event, which is about a nanosecond each time.
    pub fn run_ready(&mut self) -> Option<usize> {
        let piece = self.ready.pop_front()?;
        self.pieces[piece as usize].is_ready = false;
        Some(self.run(piece as usize))
    }

    /// Runs the piece at which events have waited longest, as [`run_ready`](Queues::run_ready); none if no event
    /// waits anywhere.
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
        let Queues { items, found, lines, .. } = self;
        let pairs = &mut self.pieces[at].pairs;
        let event = |place: u32| items[place as usize].as_ref().expect("it waits").borrow();
        let read = state.match_pairs(piece, pairs, event, lines, &mut |place, id| {
            found[place as usize].add(id);
        });
        self.choices[piece.schema as usize].note(pairs.len(), read);
        for pair in pairs.drain(..) {
            found[pair as u32 as usize].left -= 1;
        }
        read.compared
    }

    /// Gives back the events that are done, in the order in which they came: those before which none still
    /// waits. Each comes with the subscriptions that it satisfies, each once, in no order; their memory is used
    /// again unless it is taken.
    pub fn settle(&mut self, mut each: impl FnMut(T, &mut Vec<Subscription>)) {
        while self.oldest < self.next {
            let place = (self.oldest % self.capacity as u64) as usize;
            let found = &mut self.found[place];
            if found.left > 0 {
                return;
            }
            if std::mem::take(&mut found.several) {
                found.subscriptions.sort_unstable();
                found.subscriptions.dedup();
            }
            self.oldest += 1;
            let item = self.items[place].take().expect("it came and has not gone");
            each(item, &mut found.subscriptions);
            found.subscriptions.clear();
        }
    }

    /// Goes on with another snapshot.
    ///
    /// # Panics
    /// If an event is still here: [run](Queues::run_oldest) what waits, and settle it.
    pub fn adopt(&mut self, snapshot: Snapshot) {
        assert!(self.is_empty(), "events of another snapshot are here");
        self.ready.clear();
        self.touched.clear();
        self.pieces.truncate(snapshot.0.pieces.len());
        for queue in &mut self.pieces {
            (queue.is_touched, queue.is_ready) = (false, false);
        }
        self.pieces.resize_with(snapshot.0.pieces.len(), Queue::default);
        self.choices.resize_with(snapshot.0.schemas.len(), Choice::default);
        self.snapshot = snapshot;
    }
}
