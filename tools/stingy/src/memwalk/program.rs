//! A parsed server: its stages as regions of code, and the functions that they reach.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tree_sitter::Node;

use super::cases;
use super::config::{Allocate, Config, Free};
use super::events::{Action, Event, Region, events};
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
    /// Functions that queue a request.
    queues: HashMap<String, Target>,
    /// If stages are functions: those that requests are queued for. A call executes the stage.
    stages: BTreeSet<String>,
}

/// The destination of the requests that a function queues.
#[derive(Clone, Debug)]
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
        let mut program = Self { config, info, functions, targets, queues, stages: found };
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
            self.queues.insert(queue.function.clone(), target);
        }
        self.find_queue_macros();
        loop {
            let mut found = Vec::new();
            for function in self.functions.all() {
                if self.queues.contains_key(&function.name) {
                    continue;
                }
                for event in events(&whole(function)) {
                    let stage = self.stage_argument(function, &event);
                    let name = stage.map(|stage| function.file.text_of(stage));
                    let index = function.parameters.iter().position(|p| Some(p.as_str()) == name);
                    if let Some(index) = index {
                        found.push((function.name.clone(), Target::Parameter(index)));
                    }
                }
            }
            if found.is_empty() {
                break;
            }
            self.queues.extend(found);
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

    /// Finds macros that assign a parameter to the member with the state.
    fn find_queue_macros(&mut self) {
        let Some(states) = &self.config.stages.states else { return };
        for (name, (parameters, body)) in &self.functions.macro_functions {
            let root = body.tree.root_node();
            for node in nodes(root).filter(|node| node.kind() == "assignment_expression") {
                let left = node.child_by_field_name("left").map(bare);
                let member = left.and_then(|left| left.child_by_field_name("field"));
                let value =
                    node.child_by_field_name("right").map(|right| body.text_of(bare(right)));
                let index = parameters.iter().position(|name| Some(name.as_str()) == value);
                if let (Some(member), Some(index)) = (member, index)
                    && body.text_of(member) == states.member
                {
                    self.queues.insert(name.clone(), Target::Parameter(index));
                }
            }
        }
    }

    /// The expression for the stage, if the event queues a request.
    fn stage_argument(&self, function: &Function<'s>, event: &Event<'s>) -> Option<Node<'s>> {
        match &event.action {
            Action::Call { name, arguments } => match self.queues.get(*name)? {
                Target::Parameter(index) => arguments.get(*index).copied(),
                Target::Stage(_) => None,
            },
            Action::Assign { left, right } => {
                let states = self.config.stages.states.as_ref()?;
                let member = left.child_by_field_name("field")?;
                (function.file.text_of(member) == states.member).then_some(*right)
            }
            Action::Indirect { .. } => None,
        }
    }

    /// The stages that an event queues a request for. `Err` with the expression if they are not constant.
    pub(crate) fn queued_stages(
        &self,
        function: &Function<'s>,
        event: &Event<'s>,
    ) -> Result<BTreeSet<String>, Node<'s>> {
        if let Action::Call { name, .. } = &event.action {
            if let Some(Target::Stage(stage)) = self.queues.get(*name) {
                return Ok(BTreeSet::from([stage.clone()]));
            }
            if let Some(stage) = self.stages.get(*name) {
                return Ok(BTreeSet::from([stage.clone()]));
            }
        }
        let argument = self.stage_argument(function, event);
        // A handler is removed.
        let Some(argument) = argument.filter(|argument| bare(*argument).kind() != "null") else {
            return Ok(BTreeSet::new());
        };
        let text = function.file.text_of(argument);
        let names: BTreeSet<String> = nodes(argument)
            .filter(|node| node.kind() == "identifier")
            .map(|node| function.file.text_of(node))
            .filter(|name| self.is_stage(name))
            .map(str::to_owned)
            .collect();
        let is_parameter = function.parameters.iter().any(|name| name == text);
        // An assignment to a member of the same name in another structure is no error.
        let is_foreign = matches!(event.action, Action::Assign { .. })
            && nodes(argument).all(|node| node.kind() != "identifier");
        if names.is_empty() && !is_parameter && !is_foreign { Err(argument) } else { Ok(names) }
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

    /// The code of a stage; `None` for an enumerator without a `case`.
    pub(crate) fn stage(&self, name: &str) -> Option<Region<'_, 's>> {
        let Some(states) = &self.config.stages.states else {
            return self.functions.by_name.get(name).map(whole);
        };
        let function = &self.functions.by_name[&states.dispatch];
        let roots = cases::statements(cases::find(function, name)?);
        Some(Region { function, roots })
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

    /// All enumerators, if stages are enumerators.
    pub(crate) fn declared_stages(&self) -> Vec<String> {
        let states = self.config.stages.states.as_ref();
        states.map(|states| self.info.enumerations[&states.enumeration].clone()).unwrap_or_default()
    }

    /// Calls `visit` for every event that a region reaches, with the function that contains it. The events of a
    /// conditionally called function are conditional, and those of one that a loop calls are in the loop.
    pub(crate) fn walk(
        &self,
        region: &Region<'_, 's>,
        visit: &mut dyn FnMut(&Function<'s>, &Event<'s>),
    ) {
        let mut reached: BTreeMap<&str, (bool, bool)> = BTreeMap::new();
        let mut todo = vec![(region.clone(), false, false)];
        while let Some((region, is_conditional, is_repeated)) = todo.pop() {
            for mut event in events(&region) {
                event.is_conditional |= is_conditional;
                event.is_repeated |= is_repeated;
                visit(region.function, &event);
                let is_indirect = matches!(event.action, Action::Indirect { .. });
                let is_conditional = event.is_conditional || event.guard.is_some() || is_indirect;
                for callee in self.callees(region.function, &event) {
                    let known = reached.get(callee.key.as_str()).copied();
                    let flags = match known {
                        Some((conditional, repeated)) => {
                            (conditional && is_conditional, repeated || event.is_repeated)
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
        let names: Vec<&str> = match &event.action {
            Action::Call { name, .. } => vec![name],
            Action::Indirect { pointer, .. } => {
                let targets = pointer.as_ref().and_then(|pointer| self.targets.get(pointer));
                targets.into_iter().flatten().map(String::as_str).collect()
            }
            Action::Assign { .. } => Vec::new(),
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
    Region { function, roots: vec![function.body] }
}
