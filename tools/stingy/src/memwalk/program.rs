//! A parsed server: its stages as regions of code, and the functions that they reach.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tree_sitter::Node;

use super::cases;
use super::config::{Allocate, Config, Free, States};
use super::events::{Action, Event, Region, events};
use super::macros::{self, Macros};
use super::queues::Target;
use super::tables::Tables;
use crate::c::debug_info::DebugInfo;
use crate::c::expression::Scope;
use crate::c::function::{Function, Functions};
use crate::c::source::File;
use crate::c::targets::{self, Targets};
use crate::error::Error;
use crate::model::ENTRY;

/// A server and its description.
#[derive(Debug)]
pub(crate) struct Program<'s> {
    pub(crate) config: &'s Config,
    pub(crate) info: DebugInfo,
    pub(crate) functions: Functions<'s>,
    targets: Targets,
    pub(super) macros: Macros,
    tables: Tables,
    /// Functions and macros that queue a request.
    pub(super) queues: HashMap<String, BTreeSet<Target>>,
    /// If stages are functions: those that requests are queued for. A call executes the stage.
    pub(super) stages: BTreeSet<String>,
}

impl<'s> Program<'s> {
    /// # Errors
    /// If the program cannot be read, or the sources lack a function that the configuration names.
    pub(crate) fn new(config: &'s Config, files: &'s [File]) -> Result<Self, Error> {
        let sources = files.iter().filter_map(|file| file.path.file_name()).collect();
        let info = DebugInfo::load(&config.folder.join(&config.program), &sources)?;
        let functions = Functions::collect(files);
        let targets = targets::collect(&functions, files, &info);
        let (queues, found) = (HashMap::new(), BTreeSet::new());
        let macros = Macros::collect(&functions);
        let tables = Tables::default();
        let mut program =
            Self { config, info, functions, targets, macros, tables, queues, stages: found };
        let stages = &config.stages;
        let queue = stages.queue.iter().flat_map(|q| [Some(&q.function), q.to.as_ref()]).flatten();
        let queue = queue.filter(|name| !program.functions.macro_functions.contains_key(*name));
        let dispatch = stages.states.iter().map(|states| &states.dispatch);
        let named = [&stages.scheduler, &stages.schedule].into_iter().chain(&stages.entries);
        for name in named.chain(queue).chain(dispatch) {
            if !program.functions.by_name.contains_key(name) {
                let is_static = program.functions.all().any(|function| function.name == *name);
                let message = if is_static {
                    format!(
                        "several files define a static function `{name}`, which `[stages]` names; rename one"
                    )
                } else {
                    format!("the sources define no function `{name}`, which `[stages]` names")
                };
                return Err(Error::contents(&config.path, message));
            }
        }
        if let Some(states) = &stages.states
            && !program.info.enumerations.contains_key(&states.enumeration)
        {
            let message = format!("the program has no enumeration `{}`", states.enumeration);
            return Err(Error::contents(&config.program, message));
        }
        if let Some(states) = &stages.states {
            program.find_code(states, files)?;
        }
        program.find_queues();
        program.find_stages();
        if program.stages.contains(ENTRY) || program.declared_stages().iter().any(|of| of == ENTRY)
        {
            let message = format!(
                "a stage has the name `{ENTRY}`, which the tools use for the event loop; rename it"
            );
            return Err(Error::contents(&config.path, message));
        }
        Ok(program)
    }

    /// Finds the code of states: cases, or arrays of functions.
    ///
    /// # Errors
    /// If the dispatching function has neither.
    fn find_code(&mut self, states: &States, files: &[File]) -> Result<(), Error> {
        let dispatch = &self.functions.by_name[&states.dispatch];
        let names = self.declared_stages();
        if names.iter().any(|name| cases::find(dispatch, name).is_some()) {
            return Ok(());
        }
        self.tables = Tables::collect(&self.functions, &self.info, files, dispatch, &names);
        if !self.tables.calls.is_empty() {
            return Ok(());
        }
        let message = format!(
            "{}: `{}` has no `case` of the enumeration `{}`, and calls through no array of functions with an \
             initializer; `dispatch` must name the function with the `switch`",
            dispatch.file.place(dispatch.node),
            states.dispatch,
            states.enumeration
        );
        Err(Error::contents(&self.config.path, message))
    }

    /// # Errors
    /// If the description names a macro as the function that returns the size of memory.
    pub(crate) fn check_spill(&self) -> Result<(), Error> {
        let spill = self.config.memory.spill.as_ref();
        let size =
            spill.filter(|spill| spill.usable.is_none()).and_then(|spill| spill.size.as_ref());
        match size.filter(|size| !self.info.returns.contains(size)) {
            Some(size) => {
                let message = format!(
                    "the program has no function `{size}`, which `spill` names; if it is a macro, state the \
                     function in `usable`, such as `malloc_usable_size`"
                );
                Err(Error::contents(&self.config.path, message))
            }
            None => Ok(()),
        }
    }

    /// The allocation that a call of this name in a file makes, also if it is a macro for the function.
    pub(crate) fn allocation(&self, file: &File, name: &str) -> Option<&Allocate> {
        let alias = || self.config.allocation(self.functions.macros.alias(file, name));
        self.config.allocation(name).or_else(alias)
    }

    /// The deallocation that a call of this name in a file makes, also if it is a macro for the function.
    pub(crate) fn deallocation(&self, file: &File, name: &str) -> Option<&Free> {
        let alias = || self.config.deallocation(self.functions.macros.alias(file, name));
        self.config.deallocation(name).or_else(alias)
    }

    pub(crate) fn scope(&self) -> Scope<'_, 's> {
        Scope { info: &self.info, functions: &self.functions }
    }

    /// The pointer through which an event calls, with its text: a member, or a variable. `None` for other events.
    pub(crate) fn pointer<'e>(
        &self,
        function: &Function<'s>,
        event: &'e Event<'s>,
    ) -> Option<(&'e str, Option<&'e str>)> {
        match &event.action {
            Action::Indirect { name, pointer } => Some((name, pointer.as_deref())),
            Action::Call { name, .. } => {
                let is_variable = self.info.variables.contains(name)
                    && self.functions.find(function.file, name).is_none()
                    && !self.is_boundary(function.file, name);
                is_variable.then_some((*name, Some(*name)))
            }
            Action::Assign { .. } => None,
        }
    }

    /// The memory that a macro allocates and frees; `None` for functions and declared macros.
    pub(crate) fn macro_memory(&self, name: &str) -> Option<macros::Memory> {
        self.macros.memory(self.config, name)
    }

    pub(super) fn is_stage(&self, name: &str) -> bool {
        match &self.config.stages.states {
            Some(states) => self.info.enumerations[&states.enumeration].iter().any(|e| e == name),
            None => self.functions.by_name.contains_key(name),
        }
    }

    /// The code of the entry: the scheduler and the further entries.
    pub(crate) fn entry(&self) -> Vec<Region<'_, 's>> {
        let stages = &self.config.stages;
        let names = [&stages.scheduler].into_iter().chain(&stages.entries);
        names.map(|name| whole(&self.functions.by_name[name])).collect()
    }

    /// The code of a stage, for an enumerator its `case` or functions, and the code around these. Empty for an enumerator
    /// without code.
    pub(crate) fn stage(&self, name: &str) -> Vec<Region<'_, 's>> {
        let Some(states) = &self.config.stages.states else {
            return self.functions.by_name.get(name).map(whole).into_iter().collect();
        };
        let function = &self.functions.by_name[&states.dispatch];
        let mut around = whole(function);
        if let Some(found) = self.tables.functions.get(name) {
            around.except.clone_from(&self.tables.calls);
            let of_state = found.iter().filter_map(|key| self.functions.by_name.get(key));
            return of_state.map(whole).chain([around]).collect();
        }
        let Some(case) = cases::find(function, name) else { return Vec::new() };
        for other in self.declared_stages().iter().filter_map(|name| cases::find(function, name)) {
            around.except.extend(cases::statements(other).iter().map(Node::byte_range));
        }
        let mut regions = vec![Region::new(function, cases::statements(case))];
        regions.extend((!events(&around).is_empty()).then_some(around));
        regions
    }

    /// The stage whose `case` follows that of another without a `break` between them, and the statement before it.
    pub(crate) fn continues_with(&self, name: &str) -> Option<(String, Node<'s>)> {
        let states = self.config.stages.states.as_ref()?;
        let function = &self.functions.by_name[&states.dispatch];
        let case = cases::find(function, name)?;
        let last = cases::statements(case).last().copied()?;
        let next = cases::next(case).filter(|_| !cases::ends_case(last))?;
        Some((cases::label(function, next)?.to_owned(), last))
    }

    /// The enumerator that is zero, if stages are enumerators.
    pub(crate) fn first_state(&self) -> Option<String> {
        let is_zero = |name: &String| self.info.enumerators.get(name) == Some(&0);
        self.declared_stages().into_iter().find(is_zero)
    }

    /// Whether an object contains the state of a request.
    pub(crate) fn has_state(&self, object: &str) -> bool {
        let member = self.config.stages.states.as_ref().map(|states| &states.member);
        let layout = self.info.layouts.get(object);
        member.zip(layout).is_some_and(|(member, layout)| layout.member(member).is_some())
    }

    /// All enumerators, if stages are enumerators.
    pub(crate) fn declared_stages(&self) -> Vec<String> {
        let states = self.config.stages.states.as_ref();
        states.map(|states| self.info.enumerations[&states.enumeration].clone()).unwrap_or_default()
    }

    /// Calls `visit` for every event that a region reaches, with the function that contains it. The events of a
    /// conditionally called function are conditional, and those of one that a loop calls or that is called twice are
    /// repeated.
    pub(crate) fn walk(
        &self,
        region: &Region<'_, 's>,
        visit: &mut dyn FnMut(&Function<'s>, &Event<'s>),
    ) {
        // Conditional, and repeated.
        let mut reached: BTreeMap<&str, (bool, bool)> = BTreeMap::new();
        let mut todo = vec![(region.clone(), false, false)];
        while let Some((region, is_conditional, is_repeated)) = todo.pop() {
            for mut event in events(&region) {
                event.is_conditional |= is_conditional;
                event.is_repeated |= is_repeated;
                visit(region.function, &event);
                let is_direct = matches!(event.action, Action::Call { name, .. }
                    if self.functions.find(region.function.file, name).is_some());
                let is_conditional = event.is_conditional || event.guard.is_some() || !is_direct;
                for callee in self.callees(region.function, &event) {
                    let known = reached.get(callee.key.as_str()).copied();
                    let flags = match known {
                        Some((conditional, repeated)) => {
                            let is_again = !conditional && !is_conditional;
                            let is_repeated = repeated || event.is_repeated || is_again;
                            (conditional && is_conditional, is_repeated)
                        }
                        None => (is_conditional, event.is_repeated),
                    };
                    if known != Some(flags) {
                        reached.insert(&callee.key, flags);
                        todo.push((whole(callee), flags.0, flags.1));
                    }
                }
            }
        }
    }

    /// The functions with a body that an event of a function calls, except for those that analyses do not follow.
    pub(crate) fn callees(&self, function: &Function<'_>, event: &Event<'_>) -> Vec<&Function<'s>> {
        let names: Vec<&str> = match (self.pointer(function, event), &event.action) {
            (Some((_, pointer)), _) => {
                let targets = pointer.and_then(|pointer| self.targets.get(pointer));
                targets.into_iter().flatten().map(String::as_str).collect()
            }
            (None, Action::Call { name, .. }) => {
                let called = self.macros.called(name).into_iter();
                called.chain([*name]).collect()
            }
            (None, _) => Vec::new(),
        };
        let followed = names.into_iter().filter(|name| !self.is_boundary(function.file, name));
        followed.filter_map(|name| self.functions.find(function.file, name)).collect()
    }

    /// Whether analyses stop at a function.
    fn is_boundary(&self, file: &File, name: &str) -> bool {
        let stages = &self.config.stages;
        let is_dispatch = stages.states.as_ref().is_some_and(|states| states.dispatch == name);
        stages.queue.iter().any(|queue| queue.function == name)
            || is_dispatch
            || self.stages.contains(name)
            || [&stages.scheduler, &stages.schedule]
                .into_iter()
                .chain(&stages.cut)
                .any(|n| n == name)
            || self.allocation(file, name).is_some()
            || self.deallocation(file, name).is_some()
    }
}

/// The body of a function.
pub(crate) fn whole<'p, 's>(function: &'p Function<'s>) -> Region<'p, 's> {
    Region::new(function, vec![function.body])
}
