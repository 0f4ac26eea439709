//! A parsed server: its stages as regions of code, and the functions that they reach.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tree_sitter::Node;

use super::cases;
use super::config::{Allocate, Config, Free, States};
use super::events::{Action, Event, Region, events};
use super::macros::{self, Macros, Value};
use crate::c::debug_info::DebugInfo;
use crate::c::expression::Scope;
use crate::c::function::{Function, Functions};
use crate::c::source::{File, bare, nodes};
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
    macros: Macros,
    /// Functions and macros that queue a request.
    queues: HashMap<String, BTreeSet<Target>>,
    /// If stages are functions: those that requests are queued for. A call executes the stage.
    stages: BTreeSet<String>,
}

/// The destination of the requests that a function queues.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Target {
    /// The stage that the parameter with this index states.
    Parameter(usize),
    Stage(String),
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
        let mut program = Self { config, info, functions, targets, macros, queues, stages: found };
        let stages = &config.stages;
        let queue = stages.queue.iter().flat_map(|q| [Some(&q.function), q.to.as_ref()]).flatten();
        let queue = queue.filter(|name| !program.functions.macro_functions.contains_key(*name));
        let dispatch = stages.states.iter().map(|states| &states.dispatch);
        let named = [&stages.scheduler, &stages.schedule].into_iter().chain(&stages.entries);
        for name in named.chain(queue).chain(dispatch) {
            if !program.functions.by_name.contains_key(name) {
                let is_static = program.functions.all().any(|function| function.name == *name);
                let what = if is_static {
                    format!(
                        "several files define a static function `{name}`, which `[stages]` names; rename one"
                    )
                } else {
                    format!("the sources define no function `{name}`, which `[stages]` names")
                };
                return Err(Error::contents(&config.path, what));
            }
        }
        if let Some(states) = &stages.states
            && !program.info.enumerations.contains_key(&states.enumeration)
        {
            let what = format!("the program has no enumeration `{}`", states.enumeration);
            return Err(Error::contents(&config.program, what));
        }
        if let Some(states) = &stages.states {
            program.check_cases(states)?;
        }
        program.find_queues();
        program.find_stages();
        if program.stages.contains(ENTRY) || program.declared_stages().iter().any(|of| of == ENTRY)
        {
            let what = format!(
                "a stage has the name `{ENTRY}`, which the tools use for the event loop; rename it"
            );
            return Err(Error::contents(&config.path, what));
        }
        Ok(program)
    }

    /// # Errors
    /// If the dispatching function has no `case` of a state.
    fn check_cases(&self, states: &States) -> Result<(), Error> {
        let dispatch = &self.functions.by_name[&states.dispatch];
        if self.declared_stages().iter().any(|name| cases::find(dispatch, name).is_some()) {
            return Ok(());
        }
        let what = format!(
            "{}: `{}` has no `case` of the enumeration `{}`; `dispatch` must name the function with the `switch`",
            dispatch.file.place(dispatch.node),
            states.dispatch,
            states.enumeration
        );
        Err(Error::contents(&self.config.path, what))
    }

    /// # Errors
    /// If the description names a macro as the function that returns the size of memory.
    pub(crate) fn check_spill(&self) -> Result<(), Error> {
        let spill = self.config.memory.spill.as_ref();
        let size =
            spill.filter(|spill| spill.usable.is_none()).and_then(|spill| spill.size.as_ref());
        match size.filter(|size| !self.info.returns.contains(size)) {
            Some(size) => {
                let what = format!(
                    "the program has no function `{size}`, which `spill` names; if it is a macro, state the \
                     function in `usable`, such as `malloc_usable_size`"
                );
                Err(Error::contents(&self.config.path, what))
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

    /// Finds functions that pass a parameter on as the stage, such as setters of the state.
    fn find_queues(&mut self) {
        for queue in &self.config.stages.queue {
            let target = match (queue.stage, &queue.to) {
                (Some(index), _) => Target::Parameter(index),
                (None, to) => Target::Stage(to.clone().unwrap_or_default()),
            };
            self.queues.insert(queue.function.clone(), BTreeSet::from([target]));
        }
        loop {
            let mut found = self.queueing_macros();
            for function in self.functions.all() {
                if self.queues.contains_key(&function.name) {
                    continue;
                }
                for event in events(&whole(function)) {
                    for stage in self.stage_arguments(&event) {
                        let name = function.file.text_of(stage);
                        let index = function.parameters.iter().position(|of| of == name);
                        found
                            .extend(index.map(|of| (function.name.clone(), Target::Parameter(of))));
                    }
                }
            }
            if found.is_empty() {
                break;
            }
            for (name, target) in found {
                self.queues.entry(name).or_default().insert(target);
            }
        }
    }

    /// Finds the functions that are stages.
    fn find_stages(&mut self) {
        if self.config.stages.states.is_some() {
            return;
        }
        let mut stages = BTreeSet::new();
        for function in self.functions.all() {
            for event in events(&whole(function)) {
                stages.extend(self.queued_stages(function, &event).unwrap_or_default());
            }
        }
        self.stages = stages;
    }

    /// Macros that assign the state or call functions that queue, with their stages, unless they are known.
    fn queueing_macros(&self) -> Vec<(String, Target)> {
        let targets = |value: &Value| match value {
            Value::Parameter(index) => vec![Target::Parameter(*index)],
            Value::Names(names) => {
                let stages = names.iter().filter(|name| self.is_stage(name));
                stages.map(|name| Target::Stage(name.clone())).collect()
            }
        };
        let member = self.config.stages.states.as_ref().map(|states| &states.member);
        let mut found = Vec::new();
        for (name, of) in self.macros.iter() {
            let assigned = of.assigned.iter().filter(|(to, _)| Some(to) == member);
            let mut own: Vec<Target> = assigned.flat_map(|(_, value)| targets(value)).collect();
            for (callee, arguments) in &of.calls {
                for target in self.queues.get(callee).into_iter().flatten() {
                    match target {
                        Target::Parameter(index) => {
                            own.extend(arguments.get(*index).into_iter().flat_map(targets));
                        }
                        Target::Stage(_) => own.push(target.clone()),
                    }
                }
            }
            let known = self.queues.get(name);
            own.retain(|target| !known.is_some_and(|known| known.contains(target)));
            found.extend(own.into_iter().map(|target| (name.clone(), target)));
        }
        found
    }

    /// The expressions for the stage, if the event queues a request.
    fn stage_arguments(&self, event: &Event<'s>) -> Vec<Node<'s>> {
        match &event.action {
            Action::Call { name, arguments } => {
                let targets = self.queues.get(*name).into_iter().flatten();
                let indexes = targets.filter_map(|target| match target {
                    Target::Parameter(index) => Some(*index),
                    Target::Stage(_) => None,
                });
                indexes.filter_map(|index| arguments.get(index).copied()).collect()
            }
            Action::Assign { member, right } => {
                let states = self.config.stages.states.as_ref();
                let is_state = states.is_some_and(|states| *member == states.member);
                is_state.then_some(*right).into_iter().collect()
            }
            Action::Indirect { .. } => Vec::new(),
        }
    }

    /// The stages that an event queues a request for. `Err` with the expression if they are not constant.
    pub(crate) fn queued_stages(
        &self,
        function: &Function<'s>,
        event: &Event<'s>,
    ) -> Result<BTreeSet<String>, Node<'s>> {
        let mut found = BTreeSet::new();
        if let Action::Call { name, .. } = &event.action {
            let targets = self.queues.get(*name).into_iter().flatten();
            found.extend(targets.filter_map(|target| match target {
                Target::Stage(stage) => Some(stage.clone()),
                Target::Parameter(_) => None,
            }));
            let called = self.macros.called(name).into_iter().chain([*name]);
            found.extend(called.filter_map(|name| self.stages.get(name).cloned()));
            if self.stages.contains(*name) {
                return Ok(found);
            }
        }
        for argument in self.stage_arguments(event) {
            // A handler is removed.
            if bare(argument).kind() == "null" {
                continue;
            }
            let text = function.file.text_of(argument);
            let identifiers = nodes(argument).filter(|node| node.kind() == "identifier");
            let names = identifiers.map(|node| function.file.text_of(node));
            let names: Vec<&str> = names.filter(|name| self.is_stage(name)).collect();
            let is_parameter = function.parameters.iter().any(|name| name == text);
            // An assignment to a member of the same name in another structure is no error.
            let is_foreign = matches!(event.action, Action::Assign { .. })
                && nodes(argument).all(|node| node.kind() != "identifier");
            if names.is_empty() && !is_parameter && !is_foreign {
                return Err(argument);
            }
            found.extend(names.into_iter().map(str::to_owned));
        }
        Ok(found)
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
                    && self.functions.named(function.file, name).is_none()
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

    fn is_stage(&self, name: &str) -> bool {
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

    /// The code of a stage, for an enumerator its `case` and the code around all cases. Empty for an enumerator without a
    /// `case`.
    pub(crate) fn stage(&self, name: &str) -> Vec<Region<'_, 's>> {
        let Some(states) = &self.config.stages.states else {
            return self.functions.by_name.get(name).map(whole).into_iter().collect();
        };
        let function = &self.functions.by_name[&states.dispatch];
        let Some(case) = cases::find(function, name) else { return Vec::new() };
        let mut around = whole(function);
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
        let next = cases::next(case).filter(|_| !cases::ends(last))?;
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
                    if self.functions.named(region.function.file, name).is_some());
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
        followed.filter_map(|name| self.functions.named(function.file, name)).collect()
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
