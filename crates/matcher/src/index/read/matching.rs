//! Matching: one event at a time, or a cohort of events piece by piece.
//!
//! Both visit the same clusters with the same checks. A cohort is first sorted by the clusters it touches, so that each
//! cluster is read once for all of its events.

use crate::index::code::event::{Event, Line};
use crate::index::rows::cluster::Cluster;
use crate::index::rows::location::MULTIPLE_ROWS;
use crate::index::rows::piece::Piece;
use crate::index::rows::snapshot::{Snapshot, State};
use crate::index::subscription::Subscription;
use crate::simd;

/// Prefetch distance, in pairs.
const AHEAD: usize = 4;

/// An event of a cohort and a subscription that it satisfies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Match {
    /// Index of the event in the slice of events.
    pub event: u32,
    /// The subscription it satisfies.
    pub subscription: Subscription,
}

/// A buffer for matches. Reuse it with [`clear`](Self::clear): once it has grown, it allocates no more memory.
#[derive(Clone, Debug, Default)]
pub struct Matches {
    found: Vec<Match>,
    /// Matches of subscriptions with several conjunctions, possibly repeated.
    multiple_rows: Vec<Match>,
    visits: Vec<Visit>,
    sorted: Vec<u64>,
    counts: Vec<u32>,
    scratch: Scratch,
}

impl Matches {
    /// An empty buffer.
    #[must_use]
    pub fn new() -> Matches {
        Matches::default()
    }

    /// Removes the matches and keeps the allocation.
    pub fn clear(&mut self) {
        self.found.clear();
        self.multiple_rows.clear();
    }

    /// The matches so far, without duplicates, in no particular order.
    pub fn all(&mut self) -> &[Match] {
        self.settle();
        &self.found
    }

    /// The subscriptions of the matches so far, for a single event.
    #[must_use]
    pub fn subscriptions(&mut self) -> Vec<Subscription> {
        self.settle();
        self.found.iter().map(|found| found.subscription).collect()
    }

    fn settle(&mut self) {
        if !self.multiple_rows.is_empty() {
            self.multiple_rows.sort_unstable();
            self.multiple_rows.dedup();
            self.found.append(&mut self.multiple_rows);
        }
    }

    #[inline]
    fn push(found: &mut Vec<Match>, multiple_rows: &mut Vec<Match>, event: u32, id: u32) {
        if id & MULTIPLE_ROWS == 0 {
            found.push(Match { event, subscription: Subscription(id) });
        } else {
            multiple_rows.push(Match { event, subscription: Subscription(id & !MULTIPLE_ROWS) });
        }
    }
}

impl Snapshot {
    /// Finds all subscriptions that an event satisfies, and adds them to `matches` as event 0.
    ///
    /// # Panics
    /// If another snapshot coded the event.
    pub fn matches(&self, event: &Event, matches: &mut Matches) {
        let state = &*self.0;
        state.check_version(event);
        for schema in &state.schemas {
            let Some(key) = schema.key(event) else { continue };
            for piece in &schema.buckets[schema.bucket(key)].pieces {
                let piece = &*state.pieces[*piece as usize];
                if let Some(cluster) = piece.map.get(&key) {
                    let Matches { found, multiple_rows, .. } = &mut *matches;
                    state.check(&piece.clusters[*cluster as usize], event, |id| {
                        Matches::push(found, multiple_rows, 0, id);
                    });
                }
            }
        }
    }

    /// Finds the subscriptions that each event satisfies, and adds them to `matches`. Each cluster of
    /// subscriptions is read once for all events that touch it.
    ///
    /// # Panics
    /// If another snapshot coded an event.
    pub fn match_cohort(&self, events: &[Event], matches: &mut Matches) {
        self.match_part(events, 0, 1, matches);
    }

    /// Like [`match_cohort`](Snapshot::match_cohort), but gives up and returns false beyond `max_matches` matches; matches
    /// of filters with several conjunctions are counted separately. The matches are then incomplete: clear them, and
    /// match fewer events at a time. A single event is always matched completely.
    ///
    /// # Panics
    /// If another snapshot coded an event.
    #[must_use]
    pub fn match_cohort_within(
        &self,
        events: &[Event],
        max_matches: usize,
        matches: &mut Matches,
    ) -> bool {
        self.match_some(events, (0, 1), max_matches, matches)
    }

    /// Like [`match_cohort`](Snapshot::match_cohort), but only for every `parts`-th piece, starting with number `part`.
    /// The union over all parts is the complete result. Use this to divide an index among processors.
    ///
    /// # Panics
    /// If another snapshot coded an event, or `part` is not below `parts`.
    pub fn match_part(&self, events: &[Event], part: u32, parts: u32, matches: &mut Matches) {
        self.match_some(events, (part, parts), usize::MAX, matches);
    }

    /// Returns false if there are too many matches.
    fn match_some(
        &self,
        events: &[Event],
        (part, parts): (u32, u32),
        max_matches: usize,
        matches: &mut Matches,
    ) -> bool {
        assert!(part < parts, "part {part} of {parts}");
        if let ([event], 1) = (events, parts) {
            self.matches(event, matches);
            return true;
        }
        let state = &*self.0;
        let Matches { found, multiple_rows, visits, sorted, counts, scratch, .. } = matches;
        visits.clear();
        for (at, event) in events.iter().enumerate() {
            state.check_version(event);
            state.each_cluster(event, |piece, cluster| {
                if parts == 1 || piece % parts == part {
                    visits.push(Visit { piece, pair: u64::from(cluster) << 32 | at as u64 });
                }
            });
        }
        sort_by_piece(visits, state.pieces.len(), counts, sorted);
        let (of, mut from) = (|at: u32| &events[at as usize], 0);
        let line = |at: u32| &events[at as usize].line;
        // After the sort, a count is the end of its piece's pairs.
        for (piece, end) in state.pieces.iter().zip(counts) {
            let pairs = &mut sorted[from..*end as usize];
            from = *end as usize;
            if !pairs.is_empty() {
                state.match_pairs(piece, pairs, line, of, scratch, &mut |at, id| {
                    // The rest of the piece is still checked, but uses no memory.
                    if found.len() <= max_matches && multiple_rows.len() <= max_matches {
                        Matches::push(found, multiple_rows, at, id);
                    }
                });
                if found.len() > max_matches || multiple_rows.len() > max_matches {
                    return false;
                }
            }
        }
        true
    }
}

/// Reusable buffers for matching a piece.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    /// The lines of a cluster's events.
    lines: Vec<Line>,
    counts: Vec<u32>,
    sorted: Vec<u64>,
}

/// A visit of an event to a cluster.
#[derive(Clone, Copy, Debug)]
struct Visit {
    piece: u32,
    /// The cluster in the high word, the event's index in the low word.
    pair: u64,
}

/// Stable counting sort of the visits by piece number, which is below `bound`. Afterwards `counts` holds the
/// end of each piece's pairs.
fn sort_by_piece(visits: &[Visit], bound: usize, counts: &mut Vec<u32>, sorted: &mut Vec<u64>) {
    counts.clear();
    counts.resize(bound + 1, 0);
    for visit in visits {
        counts[visit.piece as usize + 1] += 1;
    }
    for at in 0..bound {
        counts[at + 1] += counts[at];
    }
    sorted.clear();
    sorted.resize(visits.len(), 0);
    for visit in visits {
        let place = &mut counts[visit.piece as usize];
        sorted[*place as usize] = visit.pair;
        *place += 1;
    }
}

/// Stable counting sort of pairs by cluster number, which is below `bound`.
fn sort_by_cluster(pairs: &[u64], bound: usize, counts: &mut Vec<u32>, sorted: &mut Vec<u64>) {
    counts.clear();
    counts.resize(bound, 0);
    for pair in pairs {
        counts[(pair >> 32) as usize] += 1;
    }
    let mut from = 0;
    for count in counts.iter_mut() {
        from += std::mem::replace(count, from);
    }
    sorted.resize(pairs.len(), 0);
    for pair in pairs {
        let place = &mut counts[(pair >> 32) as usize];
        sorted[*place as usize] = *pair;
        *place += 1;
    }
}

impl State {
    #[inline]
    pub(crate) fn check_version(&self, event: &Event) {
        assert!(
            event.version == self.version,
            "the event was coded by another snapshot; code it by the one that matches it"
        );
    }

    #[inline]
    pub(crate) fn each_cluster(&self, event: &Event, mut f: impl FnMut(u32, u32)) {
        for schema in &self.schemas {
            let Some(key) = schema.key(event) else { continue };
            for piece in &schema.buckets[schema.bucket(key)].pieces {
                if let Some(cluster) = self.pieces[*piece as usize].map.get(&key) {
                    f(*piece, *cluster);
                }
            }
        }
    }

    /// Calls `found` for each row of a cluster that the event satisfies.
    #[inline]
    pub(crate) fn check(&self, cluster: &Cluster, event: &Event, mut found: impl FnMut(u32)) {
        self.check_line(cluster, &event.line, &mut found);
        cluster.check_loose(event, found);
    }

    /// Calls `found` for each row in columns that the event satisfies.
    #[inline]
    fn check_line(&self, cluster: &Cluster, line: &Line, mut found: impl FnMut(u32)) {
        for group in &cluster.groups {
            simd::check(self.tier, group, std::slice::from_ref(line), &mut |_, row| {
                found(group.ids[row]);
            });
        }
    }

    /// Matches events with the clusters that they touch in a piece. A pair holds the cluster in its high word
    /// and the event's index in its low word; `event` and `line` map that index to the event and its byte
    /// codes. Returns the amount read.
    pub(crate) fn match_pairs<'a>(
        &self,
        piece: &Piece,
        pairs: &mut [u64],
        line: impl Fn(u32) -> &'a Line,
        event: impl Fn(u32) -> &'a Event,
        scratch: &mut Scratch,
        found: &mut impl FnMut(u32, u32),
    ) -> Read {
        let Scratch { lines, counts, sorted } = scratch;
        let pairs = match piece.clusters.len() {
            1 => &*pairs,
            // A counting sort examines every cluster, so it is used only for few clusters.
            clusters if clusters <= 2 * pairs.len() => {
                sort_by_cluster(pairs, clusters, counts, sorted);
                &*sorted
            }
            _ => {
                pairs.sort_unstable();
                &*pairs
            }
        };
        let (mut read, mut from) = (Read::default(), AHEAD);
        for run in pairs.chunk_by(|a, b| a >> 32 == b >> 32) {
            // Prefetches each cluster once, while earlier ones are checked.
            for soon in from..(from + run.len()).min(pairs.len()) {
                if pairs[soon] >> 32 != pairs[soon - 1] >> 32 {
                    piece.clusters[(pairs[soon] >> 32) as usize].prefetch();
                }
            }
            from += run.len();
            let cluster = &piece.clusters[(run[0] >> 32) as usize];
            let bytes = cluster.bytes();
            read.clusters += 1;
            read.bytes += bytes;
            read.compared += bytes / size_of::<Line>() * run.len();
            if let [pair] = run {
                let at = *pair as u32;
                self.check_line(cluster, line(at), |id| found(at, id));
                cluster.check_loose(event(at), |id| found(at, id));
                continue;
            }
            lines.clear();
            lines.extend(run.iter().map(|pair| *line(*pair as u32)));
            for group in &cluster.groups {
                simd::check(self.tier, group, lines, &mut |at, row| {
                    found(run[at] as u32, group.ids[row]);
                });
            }
            if !cluster.loose.is_empty() {
                for pair in run {
                    let at = *pair as u32;
                    cluster.check_loose(event(at), |id| found(at, id));
                }
            }
        }
        read
    }
}

/// Amount read for a cohort at a piece.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Read {
    pub(crate) clusters: usize,
    pub(crate) bytes: usize,
    /// Comparisons of a line with an event.
    pub(crate) compared: usize,
}
