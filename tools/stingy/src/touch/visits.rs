//! Attributes accesses to visits of stages.
//!
//! A visit lasts from the call of a stage's function until its return.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::symbols::Symbols;
use crate::lackey::calls::Calls;
use crate::lackey::trace::Event;

/// Size of a cache line in bytes.
pub(crate) const LINE: u64 = 64;

/// The kinds of memory.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Kind {
    Code,
    Stack,
    /// Static variables and constants of the program.
    Static,
    /// Everything else: the heap, and static memory of libraries.
    Heap,
}

/// The number of kinds.
const KINDS: usize = 4;
/// Index of the fresh lines behind those of the kinds.
pub(crate) const FRESH: usize = KINDS;

/// The first access to a line.
#[derive(Clone, Copy, Debug)]
struct Access {
    kind: Kind,
    at: u64,
}

/// Distinct lines.
#[derive(Clone, Debug, Default)]
struct Lines(HashMap<u64, Access>);

impl Lines {
    fn count(&self) -> [u32; KINDS + 1] {
        let mut counts = [0; KINDS + 1];
        for access in self.0.values() {
            counts[access.kind as usize] += 1;
        }
        counts
    }
}

/// Sums over the visits of one stage, or over requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) visits: u64,
    /// Of each visit, the distinct lines by kind, and those of the heap that the previous visit did not touch.
    lines: Vec<[u32; KINDS + 1]>,
    /// Distinct lines of functions and static variables, summed over visits. A line counts for the symbol accessed first.
    pub(crate) by_symbol: BTreeMap<(Kind, String), u64>,
    previous: HashSet<u64>,
}

impl Sums {
    /// The median over visits of the lines of a kind, or of [`FRESH`] ones. Visits that a timer or another thread
    /// interrupts do not affect it.
    pub(crate) fn median(&self, column: usize) -> f64 {
        let mut counts: Vec<u32> = self.lines.iter().map(|counts| counts[column]).collect();
        counts.sort_unstable();
        let (Some(low), Some(high)) =
            (counts.get(counts.len().saturating_sub(1) / 2), counts.get(counts.len() / 2))
        else {
            return 0.0;
        };
        f64::from(low + high) / 2.0
    }

    fn add(&mut self, lines: &Lines, symbols: &Symbols, bias: u64) {
        self.visits += 1;
        let heap: HashSet<u64> = lines
            .0
            .iter()
            .filter(|(_, access)| access.kind == Kind::Heap)
            .map(|(&line, _)| line)
            .collect();
        let mut counts = lines.count();
        counts[FRESH] = heap.difference(&self.previous).count() as u32;
        self.lines.push(counts);
        self.previous = heap;
        for access in lines.0.values() {
            if matches!(access.kind, Kind::Code | Kind::Static) {
                // Several symbols may be in the line.
                let name = symbols.name_at(access.at.wrapping_sub(bias));
                let name = name.unwrap_or("without a symbol").to_owned();
                *self.by_symbol.entry((access.kind, name)).or_default() += 1;
            }
        }
    }
}

/// A visit that has not ended.
struct Open {
    stage: usize,
    /// Where its return address is.
    slot: u64,
    lines: Lines,
}

/// The state of the attribution.
pub(crate) struct Visits<'s> {
    symbols: &'s Symbols,
    entries: HashMap<u64, usize>,
    bias: Option<u64>,
    /// The innermost is the last.
    open: Vec<Open>,
    calls: Calls,
    skip: u64,
    /// Lines since the last request started, in and outside of stages.
    request: Lines,
    pub(crate) started: u64,
    pub(crate) stages: Vec<Sums>,
    pub(crate) requests: Sums,
}

impl<'s> Visits<'s> {
    /// The first stage starts requests. The first `skip` requests are not counted.
    pub(crate) fn new(
        symbols: &'s Symbols,
        entries: HashMap<u64, usize>,
        stages: usize,
        skip: u64,
    ) -> Self {
        Self {
            symbols,
            entries,
            bias: None,
            open: Vec::new(),
            calls: Calls::default(),
            skip,
            request: Lines::default(),
            started: 0,
            stages: vec![Sums::default(); stages],
            requests: Sums::default(),
        }
    }

    pub(crate) fn event(&mut self, event: Event) {
        match event {
            Event::Loaded { bias } => {
                self.bias.get_or_insert(bias);
            }
            Event::Instruction { at, bytes } => {
                self.calls.event(event);
                self.instruction(at, bytes);
            }
            Event::Load { at, bytes } => {
                self.touch(at, bytes, None);
                self.calls.event(event);
                if bytes == 8 {
                    self.returned(at);
                }
            }
            Event::Store { at, bytes } => {
                self.touch(at, bytes, None);
                self.calls.event(event);
            }
        }
    }

    fn instruction(&mut self, at: u64, bytes: u64) {
        let entry = self.bias.and_then(|bias| self.entries.get(&at.wrapping_sub(bias)).copied());
        if let Some(stage) = entry
            && self.open.last().is_none_or(|open| open.stage != stage)
        {
            if stage == 0 {
                self.start_request();
            }
            let slot = self.calls.last_slot().unwrap_or(0);
            self.open.push(Open { stage, slot, lines: Lines::default() });
        }
        self.touch(at, bytes, Some(Kind::Code));
    }

    fn start_request(&mut self) {
        let lines = std::mem::take(&mut self.request);
        if self.started > self.skip {
            self.requests.add(&lines, self.symbols, self.bias.unwrap_or(0));
        }
        self.started += 1;
    }

    /// Ends the visits whose return address is at this place, with those that they contain.
    fn returned(&mut self, slot: u64) {
        let Some(ended) = self.open.iter().rposition(|open| open.slot == slot) else { return };
        for open in self.open.drain(ended..) {
            if self.started > self.skip {
                self.stages[open.stage].add(&open.lines, self.symbols, self.bias.unwrap_or(0));
            }
        }
    }

    fn touch(&mut self, at: u64, bytes: u64, kind: Option<Kind>) {
        let kind = kind.unwrap_or_else(|| self.kind(at));
        for line in at / LINE..=(at + bytes.max(1) - 1) / LINE {
            let access = Access { kind, at: at.max(line * LINE) };
            if let Some(open) = self.open.last_mut() {
                open.lines.0.entry(line).or_insert(access);
            }
            if self.started > 0 {
                self.request.0.entry(line).or_insert(access);
            }
        }
    }

    fn kind(&self, at: u64) -> Kind {
        if self.calls.is_stack(at) {
            Kind::Stack
        } else if self.bias.is_some_and(|bias| self.symbols.contains(at.wrapping_sub(bias))) {
            Kind::Static
        } else {
            Kind::Heap
        }
    }
}
