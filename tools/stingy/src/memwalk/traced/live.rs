//! The live memory of a traced program, and its maxima by stage.

use std::collections::{BTreeMap, HashMap};

use super::code::Code;
use super::tape::{Change, Tape};
use crate::lackey::calls::Calls;
use crate::lackey::trace::Event;
use crate::model::Place;

/// Maximum bytes of stack that a stage is assumed to use.
const MAX_STACK: u64 = 1 << 20;

/// Bytes of the return address, which belongs to the frame of the called function.
const RETURN_ADDRESS: u64 = 8;

/// Index of the entry.
pub(super) const ENTRY_STAGE: usize = 0;

/// Maxima over the visits of a stage.
#[derive(Clone, Debug, Default)]
pub(super) struct Peaks {
    pub(super) visits: u64,
    /// Bytes of objects that are live together.
    pub(super) bytes: u64,
    /// Bytes of other memory.
    pub(super) elsewhere: u64,
    pub(super) stack: u64,
    /// By object.
    pub(super) objects: Vec<u64>,
}

/// The state of the tracing.
pub(super) struct Live<'c> {
    code: &'c Code,
    calls: Calls,
    tape: Tape,
    bias: Option<u64>,
    /// The program executed an instruction of a stage. Memory that is older belongs to no request.
    pub(super) has_begun: bool,
    /// Index of the current stages.
    current: Option<usize>,
    /// End of the frames of the current stage.
    frames_end: u64,
    /// Row of the last instruction with one.
    row: Option<usize>,
    /// Address to bytes and owner.
    blocks: HashMap<u64, (u64, usize)>,
    /// Bytes by owner: the objects, then other places.
    live: Vec<u64>,
    objects: usize,
    places: BTreeMap<Option<Place>, usize>,
    /// Maximum bytes by owner.
    peak: Vec<u64>,
    pub(super) stages: Vec<Peaks>,
    /// Number of allocations.
    pub(super) allocations: u64,
    /// Maximum number of visits of a stage other than the first.
    pub(super) visits: u64,
}

impl<'c> Live<'c> {
    pub(super) fn new(code: &'c Code, stages: usize, objects: usize) -> Self {
        let peaks = Peaks { objects: vec![0; objects], ..Peaks::default() };
        Self {
            code,
            calls: Calls::default(),
            tape: Tape::default(),
            bias: None,
            has_begun: false,
            current: None,
            frames_end: 0,
            row: None,
            blocks: HashMap::new(),
            live: vec![0; objects],
            objects,
            places: BTreeMap::new(),
            peak: vec![0; objects],
            stages: vec![peaks; stages],
            allocations: 0,
            visits: 0,
        }
    }

    pub(super) fn event(&mut self, event: Event) {
        self.calls.event(event);
        match event {
            Event::Loaded { bias } => {
                self.bias.get_or_insert(bias);
            }
            Event::Instruction { at, .. } => self.instruction(at),
            Event::Load { at, .. } => self.stack(at),
            Event::Store { at, .. } => {
                self.stack(at);
                match self.tape.store(at) {
                    Some(Change::Allocated { at, bytes }) => self.allocated(at, bytes),
                    Some(Change::Freed { at }) => self.freed(at),
                    None => (),
                }
            }
        }
    }

    fn instruction(&mut self, at: u64) {
        let Some(row) = self.row_at(at) else { return };
        self.row = Some(row);
        let stages = self.code.meaning(row).stages;
        if stages.is_none() || stages == self.current {
            return;
        }
        self.current = stages;
        self.has_begun = true;
        self.frames_end = self.calls.last_slot().map_or(0, |slot| slot + RETURN_ADDRESS);
        for &stage in self.current() {
            self.stages[stage].visits += 1;
            if stage != ENTRY_STAGE {
                self.visits = self.visits.max(self.stages[stage].visits);
            }
        }
        // The entry is also between stages; only its own allocations count.
        if self.current() != [ENTRY_STAGE] {
            self.note();
        }
    }

    fn row_at(&self, at: u64) -> Option<usize> {
        self.code.row(at.checked_sub(self.bias?)?)
    }

    fn current(&self) -> &'c [usize] {
        self.current.map_or(&[], |stages| &self.code.stages[stages])
    }

    fn stack(&mut self, at: u64) {
        let used = self.frames_end.wrapping_sub(at);
        if used < MAX_STACK {
            for &stage in self.current() {
                self.stages[stage].stack = self.stages[stage].stack.max(used);
            }
        }
    }

    fn allocated(&mut self, at: u64, bytes: u64) {
        self.allocations += 1;
        if !self.has_begun {
            return;
        }
        // The innermost line of the program first: a call that is the last of its function has none in the stack.
        let calls =
            self.calls.open.iter().rev().filter_map(|call| self.row_at(call.back.checked_sub(1)?));
        let rows: Vec<usize> = self.row.into_iter().chain(calls).collect();
        let owner = match rows.iter().find_map(|row| self.code.meaning(*row).object) {
            Some(object) => object,
            None => self.place(self.code.place(&rows)),
        };
        // Its deallocation may have been that of a forked process.
        self.freed(at);
        self.blocks.insert(at, (bytes, owner));
        self.live[owner] += bytes;
        self.peak[owner] = self.peak[owner].max(self.live[owner]);
        self.note();
    }

    fn place(&mut self, place: Option<Place>) -> usize {
        let next = self.live.len();
        let owner = *self.places.entry(place).or_insert(next);
        self.live.resize(self.live.len().max(owner + 1), 0);
        self.peak.resize(self.live.len(), 0);
        owner
    }

    fn freed(&mut self, at: u64) {
        if let Some((bytes, owner)) = self.blocks.remove(&at) {
            self.live[owner] -= bytes;
        }
    }

    /// Updates the maxima of the current stages.
    fn note(&mut self) {
        let (objects, elsewhere) = self.live.split_at(self.objects);
        let (bytes, elsewhere) = (objects.iter().sum(), elsewhere.iter().sum());
        for &stage in self.current() {
            let peaks = &mut self.stages[stage];
            peaks.bytes = peaks.bytes.max(bytes);
            peaks.elsewhere = peaks.elsewhere.max(elsewhere);
            for (peak, live) in peaks.objects.iter_mut().zip(objects) {
                *peak = (*peak).max(*live);
            }
        }
    }

    /// Places that allocate memory of no object, with their maximum bytes; the largest first.
    pub(super) fn elsewhere(&self) -> Vec<(Option<&Place>, u64)> {
        let places = self.places.iter().map(|(place, owner)| (place.as_ref(), self.peak[*owner]));
        let mut places: Vec<_> = places.collect();
        places.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        places
    }
}
