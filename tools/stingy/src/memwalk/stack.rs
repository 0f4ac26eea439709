//! The stack that a stage needs: the deepest path through the call graph.

use std::collections::{BTreeSet, HashMap};

use super::events::{Region, events};
use super::program::{Program, whole};
use crate::c::function::Function;
use crate::c::stack_usage::Frame;

/// Computes stack depths, and remembers those of functions.
///
/// Functions that call each other form a component, of which each counts once (Tarjan's algorithm).
pub(crate) struct Stacks<'p, 's> {
    program: &'p Program<'s>,
    frames: HashMap<String, Frame>,
    /// Of functions whose component is complete.
    depths: HashMap<&'p str, u64>,
    /// The order in which functions were reached.
    order: HashMap<&'p str, usize>,
    /// Reached functions whose component is not complete.
    open: Vec<&'p Function<'s>>,
    /// One function of each component that is recursive.
    pub(crate) recursive: BTreeSet<&'p str>,
    /// Functions with frames that may be larger than the compiler states.
    pub(crate) unbounded: BTreeSet<&'p str>,
}

impl<'p, 's> Stacks<'p, 's> {
    pub(crate) fn new(program: &'p Program<'s>, frames: HashMap<String, Frame>) -> Self {
        Self {
            program,
            frames,
            depths: HashMap::new(),
            order: HashMap::new(),
            open: Vec::new(),
            recursive: BTreeSet::new(),
            unbounded: BTreeSet::new(),
        }
    }

    /// Bytes of stack that the region needs, including the frame of its function.
    pub(crate) fn depth(&mut self, region: &Region<'p, 's>) -> u64 {
        let callees = self.callees(region);
        for callee in &callees {
            self.reach(callee);
        }
        let below = callees.iter().map(|callee| self.depths[callee.key.as_str()]).max();
        self.frame(region.function) + below.unwrap_or(0)
    }

    fn callees(&self, region: &Region<'p, 's>) -> Vec<&'p Function<'s>> {
        let program = self.program;
        let found = events(region);
        found.iter().flat_map(|event| program.callees(region.function, event)).collect()
    }

    fn frame(&mut self, function: &'p Function<'s>) -> u64 {
        // Without one the compiler merged the function into its caller.
        let frame = self.frames.get(&function.name);
        if frame.is_some_and(|frame| frame.is_unbounded) {
            self.unbounded.insert(&function.key);
        }
        frame.map_or(0, |frame| frame.bytes)
    }

    /// Visits a function and those below it. Returns the earliest open function that they call.
    fn reach(&mut self, function: &'p Function<'s>) -> usize {
        let key = function.key.as_str();
        if let Some(&at) = self.order.get(key) {
            return if self.depths.contains_key(key) { usize::MAX } else { at };
        }
        let at = self.order.len();
        self.order.insert(key, at);
        let first = self.open.len();
        self.open.push(function);
        let callees = self.callees(&whole(function));
        let earliest = callees.iter().map(|callee| self.reach(callee)).min().unwrap_or(usize::MAX);
        if earliest < at {
            return earliest;
        }
        let component = self.open.split_off(first);
        if earliest == at {
            self.recursive.insert(key);
        }
        let (mut depth, mut below) = (0, 0);
        for function in component.iter().copied() {
            depth += self.frame(function);
            let callees = self.callees(&whole(function));
            let known = callees.iter().filter_map(|callee| self.depths.get(callee.key.as_str()));
            below = below.max(known.copied().max().unwrap_or(0));
        }
        let members = component.iter().map(|function| function.key.as_str());
        self.depths.extend(members.map(|key| (key, depth + below)));
        usize::MAX
    }
}
