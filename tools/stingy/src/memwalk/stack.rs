//! The stack that a stage needs: the deepest path through the call graph.

use std::collections::{BTreeSet, HashMap};

use super::events::{Region, events};
use super::program::{Program, whole};
use crate::c::function::Function;
use crate::c::stack_usage::Frame;

/// Computes stack depths, and remembers those of functions.
pub(crate) struct Stacks<'p, 's> {
    program: &'p Program<'s>,
    frames: HashMap<String, Frame>,
    depths: HashMap<&'p str, u64>,
    /// The keys of the functions on the current path.
    path: Vec<&'p str>,
    /// Functions that call themselves, perhaps through others. Each counts once.
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
            path: Vec::new(),
            recursive: BTreeSet::new(),
            unbounded: BTreeSet::new(),
        }
    }

    /// Bytes of stack that the region needs, including the frame of its function.
    pub(crate) fn depth(&mut self, region: &Region<'p, 's>) -> u64 {
        let function = region.function;
        self.path.push(&function.key);
        let below = events(region)
            .iter()
            .flat_map(|event| self.program.callees(function, event))
            .map(|callee| self.depth_of(callee))
            .max();
        self.path.pop();
        // The compiler merged a function without a frame of its own into its caller.
        let frame = self.frames.get(&function.name);
        if frame.is_some_and(|frame| frame.is_unbounded) {
            self.unbounded.insert(&function.key);
        }
        frame.map_or(0, |frame| frame.bytes) + below.unwrap_or(0)
    }

    fn depth_of(&mut self, function: &'p Function<'s>) -> u64 {
        let name = function.key.as_str();
        if self.path.contains(&name) {
            self.recursive.insert(name);
            return 0;
        }
        if let Some(&depth) = self.depths.get(name) {
            return depth;
        }
        let depth = self.depth(&whole(function));
        self.depths.insert(name, depth);
        depth
    }
}
