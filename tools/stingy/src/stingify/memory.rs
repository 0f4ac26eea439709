//! Replaces allocations and deallocations by those of the generated allocator.

use std::collections::{BTreeMap, BTreeSet};

use tree_sitter::Node;

use super::aliases;
use super::edits::Edits;
use super::uses::{Texts, Understood};
use crate::c::function::Function;
use crate::c::source::unparenthesized;
use crate::memwalk::config::{Allocate, STANDARD};
use crate::memwalk::events::{Action, Event, events};
use crate::memwalk::program::{Program, whole};
use crate::model::{Analysis, Place};
use crate::stingygen::{names, pooled};

/// The C library's function for the size of memory.
const USABLE_SIZE: &str = "malloc_usable_size";

/// Replaces the memory of objects that have pools.
pub(super) struct Memory<'m, 's> {
    program: &'m Program<'s>,
    analysis: &'m Analysis,
    texts: &'m Texts<'s>,
    objects: BTreeSet<String>,
    /// Functions that free memory, change its size or return it, and macros that use them.
    tracked: BTreeSet<String>,
    macros: BTreeSet<String>,
    understood: Understood,
    pub(super) notes: BTreeSet<(Place, String)>,
}

impl<'m, 's> Memory<'m, 's> {
    pub(super) fn new(
        program: &'m Program<'s>,
        analysis: &'m Analysis,
        texts: &'m Texts<'s>,
    ) -> Self {
        let memory = &program.config.memory;
        let mut tracked: BTreeSet<String> =
            memory.free.iter().map(|free| free.function.clone()).collect();
        let allocate = memory.allocate.iter().map(|allocate| allocate.function.clone());
        tracked.extend(allocate.filter(|name| name.contains("realloc")));
        tracked.insert(USABLE_SIZE.to_owned());
        tracked.extend(memory.spill.as_ref().and_then(|spill| spill.size.clone()));
        let macros = texts.macros(&tracked);
        let objects = pooled(analysis).iter().map(|object| object.name.clone()).collect();
        let (understood, notes) = (Understood::default(), BTreeSet::new());
        let mut this =
            Self { program, analysis, texts, objects, tracked, macros, understood, notes };
        this.keep_unclear();
        this
    }

    fn note(&mut self, at: Place, message: impl Into<String>) {
        self.notes.insert((at, message.into()));
    }

    /// The object keeps its allocator.
    fn keep(&mut self, object: &str, at: Place, reason: &str) {
        if self.objects.remove(object) {
            self.note(at, format!("`{object}` keeps its allocator, because {reason}"));
        }
    }

    /// The calls outside of allocating functions, whose bodies remain.
    fn calls(&self) -> impl Iterator<Item = (&'m Function<'s>, Event<'s>)> + use<'m, 's> {
        let program = self.program;
        program.functions.all().filter(move |function| !is_own(program, function)).flat_map(
            |function| {
                let found = events(&whole(function)).into_iter();
                let calls = found.filter(|event| matches!(event.action, Action::Call { .. }));
                calls.map(move |event| (function, event))
            },
        )
    }

    /// Objects keep their allocators if a call changes their size, if a macro frees them, if nothing frees them under
    /// their name, or if a structure that begins alike is freed and has no pool.
    fn keep_unclear(&mut self) {
        let program = self.program;
        let mut freed: BTreeMap<String, Place> = BTreeMap::new();
        for (function, event) in self.calls() {
            let Action::Call { name, arguments } = &event.action else { continue };
            let at = function.file.place(event.node);
            let object = |argument: Node<'s>| program.freed(function, argument).ok();
            if let Some(by) = program.deallocation(function.file, name) {
                let object = arguments.get(by.memory).and_then(|&memory| object(memory));
                freed.extend(object.map(|object| (object, at)));
            } else if let Some(by) = program.allocation(function.file, name) {
                for other in other_arguments(by, arguments).filter_map(object) {
                    self.keep(&other, at.clone(), "its size changes here");
                }
            } else if self.macros.contains(*name) {
                for other in arguments.iter().filter_map(|&argument| object(argument)) {
                    let reason = format!("the macro `{name}` may free it here");
                    self.keep(&other, at.clone(), &reason);
                }
            }
        }
        for object in &self.analysis.objects {
            if !freed.contains_key(&object.name) {
                let at = object.allocated[0].at.clone();
                self.keep(&object.name, at, "no call frees it under this name");
            }
        }
        loop {
            let others = freed.iter().filter(|(object, _)| !self.objects.contains(*object));
            let found = others.filter_map(|(object, at)| {
                let alike = aliases::find_aliases(&program.info, object, &self.objects)?;
                Some((alike.clone(), object.clone(), at.clone()))
            });
            let Some((object, other, at)) = found.into_iter().next() else { break };
            self.keep(
                &object,
                at,
                &format!("it may be freed here as `{other}`, which begins alike"),
            );
        }
    }

    /// Replaces all allocations and deallocations of the objects, also those outside of stages, and notes the others.
    pub(super) fn replace(&mut self, edits: &mut Edits) {
        let program = self.program;
        for function in program.functions.all().filter(|function| is_own(program, function)) {
            self.understood.add_range(function.file, function.node.byte_range());
        }
        let spill = program.config.memory.spill.as_ref();
        let size = spill.and_then(|spill| spill.size.as_deref()).unwrap_or(USABLE_SIZE);
        for (function, event) in self.calls() {
            let Action::Call { name, arguments } = &event.action else { continue };
            let replacement = if let Some(by) = program.allocation(function.file, name) {
                self.allocation(function, &event, arguments, by)
            } else if let Some(by) = program.deallocation(function.file, name) {
                let Some(&memory) = arguments.get(by.memory) else { continue };
                self.replace_use(function, &event, memory, "free")
            } else if *name == size
                && let [memory] = arguments[..]
            {
                self.replace_use(function, &event, memory, "size")
            } else {
                continue;
            };
            self.understood.add_call(function, &event);
            if let Some(by) = replacement {
                edits.replace(function.file, event.node.byte_range(), by);
            }
        }
        let tracked = self.tracked.union(&self.macros).cloned().collect();
        for other in self.texts.others(&tracked, &self.understood) {
            let name = &other.name;
            let message = match () {
                () if self.macros.contains(name) => format!("the macro `{name}` may free memory"),
                () if other.is_call => {
                    format!("this call of `{name}` is in text that was not parsed")
                }
                () => format!("`{name}` is a value here, through which memory may be freed"),
            };
            self.note(
                other.at,
                format!("not replaced: {message}; check that it is none of the objects"),
            );
        }
    }

    fn allocation(
        &mut self,
        function: &'m Function<'s>,
        event: &Event<'s>,
        arguments: &[Node<'s>],
        by: &Allocate,
    ) -> Option<String> {
        let at = function.file.place(event.node);
        // Memory whose size changes.
        if by.function.contains("realloc")
            && let Some(memory) = other_arguments(by, arguments).next()
        {
            self.replace_use(function, event, memory, "");
        }
        let allocated = self.program.allocated(function, event.node, arguments, by).ok()?;
        let object = &allocated.object;
        if !self.objects.contains(object) {
            return None;
        }
        let of = self.analysis.objects.iter().find(|of| of.name == *object);
        let reason = if allocated.bytes.is_none()
            || allocated.bytes > of.and_then(|object| object.bytes)
        {
            "its size differs".to_owned()
        } else if by.size.is_some() && other_arguments(by, arguments).next().is_some() {
            format!("`{}` has further arguments", by.function)
        } else {
            let text = |index: usize| function.file.text_of(arguments[index]);
            let zeroed = if by.zeroed { "z" } else { "" };
            let name = names::object(object);
            let Some(size) = by.size.filter(|_| allocated.is_bound).map(text) else {
                if allocated.is_bound {
                    let message = format!(
                        "`{object}` has the bound of `[memory.sizes]`, which nothing checks here"
                    );
                    self.note(at, message);
                }
                return Some(format!("stingy_{zeroed}alloc({name})"));
            };
            let count = by.count.map_or("1", text);
            return Some(format!("stingy_{zeroed}alloc_sized({name}, {count}, {size})"));
        };
        let spill = self.program.config.memory.spill.as_ref();
        let (allocates, frees) = spill
            .map_or(("malloc", "free"), |spill| (spill.allocate.as_str(), spill.free.as_str()));
        let fits = by.function == allocates
            || frees == "free" && STANDARD.iter().any(|(name, ..)| *name == by.function);
        let check = format!("; check that `{frees}` may free it");
        let check = if fits { "" } else { &check };
        let message = format!("this allocation of `{object}` keeps its allocator: {reason}{check}");
        self.note(at, message);
        None
    }

    /// `stingy_free` or `stingy_size` for the memory of an object. Notes other memory that may be that of an object.
    fn replace_use(
        &mut self,
        function: &'m Function<'s>,
        event: &Event<'s>,
        memory: Node<'s>,
        by: &str,
    ) -> Option<String> {
        let text = function.file.text_of(memory);
        let found = self.program.freed(function, memory);
        if let Ok(object) = &found
            && self.objects.contains(object)
            && !by.is_empty()
        {
            return Some(format!("stingy_{by}({}, {text})", names::object(object)));
        }
        if unparenthesized(memory).kind() == "null" {
            return None;
        }
        let of = self.program.scope().type_of(function, unparenthesized(memory));
        let reason = match (&found, of) {
            (Err(message), _) => message.clone(),
            (_, None) => format!("`{text}` has no type"),
            (_, Some(of)) if of.base == "void" => format!("`{text}` has no type"),
            (Ok(object), Some(of)) if *object != of.base => {
                format!("`{text}` is no pointer to a structure")
            }
            (Ok(_), _) => return None,
        };
        let at = function.file.place(event.node);
        self.note(at, format!("not replaced: {reason}; check that it is none of the objects"));
        None
    }
}

fn is_own(program: &Program<'_>, function: &Function<'_>) -> bool {
    let config = program.config;
    config.allocation(&function.name).is_some() || config.deallocation(&function.name).is_some()
}

/// The arguments of an allocating function other than size and number.
fn other_arguments<'s>(by: &Allocate, arguments: &[Node<'s>]) -> impl Iterator<Item = Node<'s>> {
    let known = [by.size, by.count];
    let is_known = move |i: usize| known.contains(&Some(i));
    arguments.iter().enumerate().filter(move |(i, _)| !is_known(*i)).map(|(_, &node)| node)
}
