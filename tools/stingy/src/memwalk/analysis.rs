//! Finds stages, transitions and objects, and reports constructs that are not understood.

use std::collections::{BTreeMap, BTreeSet};

use super::events::{Action, Event, Region, events};
use super::live;
use super::program::{Program, whole};
use super::stack::Stacks;
use crate::c::function::Function;
use crate::c::{source, stack_usage};
use crate::error::Error;
use crate::model::{Analysis, ENTRY, Object, Place, Site, Stage, Transition, Warning};

/// Begins warnings about text that was not parsed.
pub(crate) const SYNTAX: &str = "this syntax was not understood";

/// Maximum number of characters of code in a warning.
const MAX_SNIPPET: usize = 60;

/// Maximum number of static variables that the analysis lists.
const MAX_GLOBALS: usize = 10;

/// Analyses a server with these sources.
pub(crate) fn analyse(program: &Program<'_>, files: &[source::File]) -> Result<Analysis, Error> {
    let (config, info) = (program.config, &program.info);
    program.check_spill()?;
    let mut collected = Collected::default();
    collected.warn_syntax(files);
    collected.add_stages(program)?;
    let selected = &config.memory.objects;
    if selected.is_empty() {
        collected.warn_unallocated(program);
    }
    collected.objects.retain(|_, object| !object.allocated.is_empty());
    if let Some(name) = selected.iter().find(|name| !collected.objects.contains_key(*name)) {
        let message = format!("no stage allocates `{name}`, which `objects` in `[memory]` names");
        return Err(Error::contents(&config.path, message));
    }
    for object in collected.objects.values_mut() {
        object.is_pooled = selected.is_empty() || selected.contains(&object.name);
    }
    collected.warn_repeated();
    for object in collected.objects.values().filter(|o| info.ambiguous.contains(&o.name)) {
        let message = format!("several structures are named `{}`; the largest counts", object.name);
        collected.warnings.insert(Warning { at: object.allocated[0].at.clone(), what: message });
    }
    let mut stages = std::mem::take(&mut collected.stages);
    live::sort(&mut stages, &collected.transitions);
    live::propagate(&mut stages, &collected.transitions);
    for stage in &mut stages {
        let sizes = live::during(stage).into_iter().filter_map(|o| collected.objects.get(o)?.bytes);
        stage.bytes = sizes.sum();
    }
    if let Some(folder) = &config.stack_usage {
        let frames = stack_usage::load(&config.folder.join(folder))?;
        collected.add_stacks(program, &mut stages, frames);
    }
    let stack = stages.iter().filter_map(|stage| stage.stack).max();
    Ok(Analysis {
        program: config.program.clone(),
        stages,
        transitions: collected.transitions.into_iter().collect(),
        objects: collected.objects.into_values().collect(),
        global_bytes: info.global_bytes,
        globals: info.globals.iter().take(MAX_GLOBALS).cloned().collect(),
        stack,
        warnings: collected.warnings.into_iter().collect(),
        spill: config.memory.spill.clone(),
        elsewhere: Vec::new(),
    })
}

#[derive(Default)]
struct Collected {
    stages: Vec<Stage>,
    transitions: BTreeSet<Transition>,
    objects: BTreeMap<String, Object>,
    /// Stages that allocate requests whose state is zero.
    zeroed: Vec<(String, Site)>,
    /// Allocations in loops or several times, with their objects.
    repeated: BTreeSet<(Place, String)>,
    warnings: BTreeSet<Warning>,
}

impl Collected {
    fn warn(&mut self, at: Place, message: impl Into<String>) {
        self.warnings.insert(Warning { at, what: message.into() });
    }

    /// Reports text that is not C as the grammar knows it, once for each function.
    fn warn_syntax(&mut self, files: &[source::File]) {
        for file in files {
            let mut cursor = file.tree.walk();
            for item in file.tree.root_node().children(&mut cursor).filter(|item| item.has_error())
            {
                let error = source::nodes(item).find(|node| node.is_error() || node.is_missing());
                let node = error.unwrap_or(item);
                let text = file.text_of(node).lines().next().unwrap_or_default().trim();
                let text: String = text.chars().take(MAX_SNIPPET).collect();
                let message =
                    format!("{SYNTAX}: `{text}`; what follows in the function may be missing");
                self.warn(file.place(node), message);
            }
        }
    }

    /// Reports allocations of which a stage may execute several.
    fn warn_repeated(&mut self) {
        for (at, name) in std::mem::take(&mut self.repeated) {
            if self.objects.get(&name).is_some_and(|object| object.is_pooled) {
                self.warn(
                    at,
                    format!("`{name}` is allocated in a loop or several times; it counts once"),
                );
            }
        }
    }

    /// Reports objects that stages free and that no known function allocates.
    fn warn_unallocated(&mut self, program: &Program<'_>) {
        let mut allocated = BTreeSet::new();
        for function in program.functions.all() {
            for event in events(&whole(function)) {
                let Action::Call { name, arguments } = &event.action else { continue };
                if let Some(by) = program.allocation(function.file, name) {
                    let found = program.allocated(function, event.node, arguments, by);
                    allocated.extend(found.ok().map(|found| found.object));
                }
            }
        }
        // Memory of a variable may have another name where it is allocated.
        let is_unknown = |name: &String| !name.contains(':') && !allocated.contains(name);
        let unknown =
            self.objects.values().filter(|of| of.allocated.is_empty() && is_unknown(&of.name));
        let warnings = unknown.filter_map(|object| {
            let message = format!(
                "`{}` is freed here, but its allocation is unknown, and it does not count; declare the allocating \
                 function in `memory.allocate`",
                object.name
            );
            Some(Warning { at: object.freed.first()?.at.clone(), what: message })
        });
        self.warnings.extend(warnings);
    }

    /// Adds the entry, then every stage that is queued or declared.
    fn add_stages(&mut self, program: &Program<'_>) -> Result<(), Error> {
        let mut todo = vec![ENTRY.to_owned()];
        todo.extend(program.declared_stages());
        let mut known: BTreeSet<String> = todo.iter().cloned().collect();
        while let Some(name) = todo.pop() {
            let regions = if name == ENTRY { program.entry() } else { program.stage(&name) };
            let Some(first) = regions.first() else { continue };
            let node = first.roots.first().copied().unwrap_or(first.function.body);
            let is_whole = node == first.function.body;
            let at = first.function.file.place(if is_whole { first.function.node } else { node });
            let mut found = Memory { is_entry: name == ENTRY, ..Memory::default() };
            for region in &regions {
                self.walk(program, &name, region, &mut found);
            }
            self.repeated.extend(found.repeated());
            let (frees, may_free) = found.freed();
            if let Some((to, end)) = program.continues_with(&name) {
                self.transitions.insert(Transition {
                    from: name.clone(),
                    to,
                    at: first.function.file.place(end),
                    function: first.function.name.clone(),
                });
            }
            for edge in self.transitions.iter().filter(|edge| edge.from == name) {
                if known.insert(edge.to.clone()) {
                    todo.push(edge.to.clone());
                }
            }
            self.stages.push(Stage {
                name,
                at,
                allocates: found.allocated.into_keys().collect(),
                frees,
                may_free,
                live: Vec::new(),
                bytes: 0,
                stack: None,
                traced: None,
            });
        }
        self.add_first_state(program);
        if self.transitions.is_empty() {
            let message =
                "no transition was found; check `queue`, `handlers` or `states` in `[stages]`";
            return Err(Error::contents(&program.config.path, message));
        }
        Ok(())
    }

    /// Adds transitions to the state that is zero, if no other leads there, and reports stages that no path reaches.
    fn add_first_state(&mut self, program: &Program<'_>) {
        if program.config.stages.states.is_none() {
            return;
        }
        let reached = live::reachable(&self.transitions);
        let is_stage = |name: &String| self.stages.iter().any(|stage| stage.name == *name);
        let first = program.first_state().filter(is_stage);
        if let Some(first) = first.filter(|first| !reached.contains(first)) {
            for (from, site) in std::mem::take(&mut self.zeroed) {
                let (to, at, function) = (first.clone(), site.at, site.function);
                self.transitions.insert(Transition { from, to, at, function });
            }
        }
        let reached = live::reachable(&self.transitions);
        let unknown: Vec<_> = self.stages.iter().filter(|of| !reached.contains(&of.name)).collect();
        let warnings = unknown.iter().map(|stage| Warning {
            at: stage.at.clone(),
            what: format!(
                "no path to `{}` was found; what requests hold there is unknown",
                stage.name
            ),
        });
        self.warnings.extend(warnings);
    }

    fn walk<'s>(
        &mut self,
        program: &Program<'s>,
        stage: &str,
        region: &Region<'_, 's>,
        found: &mut Memory,
    ) {
        program.walk(region, &mut |function, event| {
            let at = function.file.place(event.node);
            match program.queued_stages(function, event) {
                Ok(names) => self.transitions.extend(names.into_iter().map(|to| Transition {
                    from: stage.to_owned(),
                    to,
                    at: at.clone(),
                    function: function.name.clone(),
                })),
                Err(expression) => {
                    let text = function.file.text_of(expression);
                    self.warn(at.clone(), format!("the next stage, `{text}`, is not constant"));
                }
            }
            match program.pointer(function, event) {
                Some((name, _)) if program.callees(function, event).is_empty() => {
                    let message =
                        format!("call through `{name}`, to which no known function is assigned");
                    self.warn(at, message);
                }
                Some(_) => (),
                None => self.add_memory(program, stage, function, event, found),
            }
        });
    }

    fn add_memory<'s>(
        &mut self,
        program: &Program<'s>,
        stage: &str,
        function: &Function<'s>,
        event: &Event<'s>,
        found: &mut Memory,
    ) {
        let Action::Call { name, arguments } = &event.action else { return };
        let at = function.file.place(event.node);
        let code = (function.key.clone(), event.node.start_byte());
        let site =
            Site { at: at.clone(), function: function.name.clone(), calls: (*name).to_owned() };
        if let Some(by) = program.allocation(function.file, name) {
            match program.allocated(function, event.node, arguments, by) {
                Ok(allocated) => {
                    if allocated.bytes.is_none() {
                        let object = &allocated.object;
                        self.warn(at, format!(
                            "the size of `{object}` is determined at run time; state a bound in `[memory.sizes]`"
                        ));
                    }
                    if event.is_repeated && !found.is_entry {
                        self.repeated.insert((site.at.clone(), allocated.object.clone()));
                    }
                    if by.zeroed && program.has_state(&allocated.object) {
                        self.zeroed.push((stage.to_owned(), site.clone()));
                    }
                    let object = self.object(&allocated.object);
                    object.bytes = object.bytes.max(allocated.bytes);
                    let name = allocated.object;
                    if !event.is_conditional && event.guard.is_none() {
                        let certain = found.certain.entry(name.clone()).or_default();
                        certain.insert(code.clone(), site.at.clone());
                    }
                    add(&mut object.allocated, site);
                    found.allocated.entry(name).or_default().insert(code);
                }
                Err(message) => self.warn(at, format!("not understood: {message}")),
            }
            return;
        }
        let (frees, is_conditional) = match program.deallocation(function.file, name) {
            Some(by) => (BTreeSet::from([by.memory]), false),
            None => {
                let Some(of) = program.macro_memory(name) else { return };
                if let Some(by) = of.allocates {
                    let message = format!(
                        "not understood: the macro `{name}` calls `{by}`; declare the macro in `memory.allocate`"
                    );
                    self.warn(at.clone(), message);
                }
                (of.frees, of.is_conditional)
            }
        };
        for &memory in frees.iter().filter_map(|&index| arguments.get(index)) {
            match program.freed(function, memory) {
                Ok(object) => {
                    let text = function.file.text_of(memory);
                    let is_certain = !event.is_conditional
                        && !is_conditional
                        && event.guard.is_none_or(|guard| guard == text);
                    let freed = found.freed.entry(object.clone()).or_default();
                    freed.extend(is_certain.then(|| code.clone()));
                    add(&mut self.object(&object).freed, site.clone());
                }
                Err(message) => self.warn(at.clone(), format!("not understood: {message}")),
            }
        }
    }

    fn object(&mut self, name: &str) -> &mut Object {
        self.objects.entry(name.to_owned()).or_insert_with(|| Object {
            name: name.to_owned(),
            bytes: None,
            allocated: Vec::new(),
            freed: Vec::new(),
            is_pooled: true,
        })
    }

    fn add_stacks(
        &mut self,
        program: &Program<'_>,
        stages: &mut [Stage],
        frames: std::collections::HashMap<String, stack_usage::Frame>,
    ) {
        let mut stacks = Stacks::new(program, frames);
        for stage in stages {
            let regions =
                if stage.name == ENTRY { program.entry() } else { program.stage(&stage.name) };
            stage.stack = regions.iter().map(|region| stacks.depth(region)).max();
        }
        let reasons = [
            (
                &stacks.recursive,
                "the function is recursive, perhaps through others; the stack counts each once",
            ),
            (&stacks.unbounded, "the frame of the function depends on run-time sizes"),
        ];
        for (names, message) in reasons {
            for function in names.iter().map(|&name| &program.functions.by_name[name]) {
                self.warn(function.file.place(function.node), message);
            }
        }
    }
}

/// A function by its key, and a position in its file.
type Code = (String, usize);

/// The memory of one stage.
#[derive(Default)]
struct Memory {
    /// The entry contains the loop over requests.
    is_entry: bool,
    allocated: BTreeMap<String, BTreeSet<Code>>,
    /// The allocations that every path executes.
    certain: BTreeMap<String, BTreeMap<Code, Place>>,
    /// The deallocations that every path executes. Other objects that the stage frees have none.
    freed: BTreeMap<String, BTreeSet<Code>>,
}

impl Memory {
    /// The objects of which every path allocates several, with their second allocation.
    fn repeated(&self) -> BTreeSet<(Place, String)> {
        let second = |places: &BTreeMap<Code, Place>| places.values().nth(1).cloned();
        let certain = self.certain.iter().filter(|_| !self.is_entry);
        certain.filter_map(|(name, places)| Some((second(places)?, name.clone()))).collect()
    }

    /// The objects that the stage has freed at its end, and those that it may have freed. The deallocation of an object
    /// that the stage also allocates counts if it is behind each allocation in the same function.
    fn freed(&self) -> (Vec<String>, Vec<String>) {
        let is_freed = |(name, freed): &(&String, &BTreeSet<Code>)| {
            let allocated = self.allocated.get(*name);
            freed.iter().any(|(function, at)| {
                allocated.into_iter().flatten().all(|other| other.0 == *function && other.1 < *at)
            })
        };
        let (frees, may_free): (Vec<_>, Vec<_>) = self.freed.iter().partition(is_freed);
        let names = |objects: Vec<(&String, &BTreeSet<Code>)>| {
            objects.into_iter().map(|(name, _)| name.clone()).collect()
        };
        (names(frees), names(may_free))
    }
}

/// Adds a site that several stages may reach.
fn add(sites: &mut Vec<Site>, site: Site) {
    if let Err(at) = sites.binary_search(&site) {
        sites.insert(at, site);
    }
}
