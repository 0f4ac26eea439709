//! The functions and macros that queue requests, and the stages for which they do.

use std::collections::BTreeSet;

use tree_sitter::Node;

use super::events::{Action, Event, events};
use super::macros::Value;
use super::program::{Program, whole};
use crate::c::function::Function;
use crate::c::source::{nodes, unparenthesized};

/// The destination of the requests that a function queues.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Target {
    /// The stage that the parameter with this index states.
    Parameter(usize),
    Stage(String),
}

impl<'s> Program<'s> {
    /// Finds functions that pass a parameter on as the stage, such as setters of the state.
    pub(super) fn find_queues(&mut self) {
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
    pub(super) fn find_stages(&mut self) {
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
        let mut found = Vec::new();
        for (name, of) in self.macros.iter() {
            let assigned = of.assigned.iter().filter(|(to, _)| self.config.stages.is_stage(to));
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
                let is_stage = self.config.stages.is_stage(member);
                is_stage.then_some(*right).into_iter().collect()
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
            if unparenthesized(argument).kind() == "null" {
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
}
