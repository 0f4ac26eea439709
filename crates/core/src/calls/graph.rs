//! The call graph, computed from declarations and counters.

use crate::calls::cycle::{CallCycle, cycles};
use crate::handle::graph::Graph;
use crate::program::control::Control;
use crate::stage::declaration::StageDeclaration;
use crate::stage_set::StageSet;

/// The stages of a program, and their invocations of each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallGraph {
    /// The stages, in wavefront order.
    pub stages: Vec<StageNode>,
    /// The calls, ordered by the invoking stage and then by the invoked stage. Calls from outside come last.
    pub calls: Vec<StageCall>,
}

/// A stage in a [`CallGraph`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StageNode {
    /// Its name.
    pub name: &'static str,
    /// Whether the calls by this stage are declared ([`Graph::calls`]).
    pub is_declared: bool,
    /// Its [capacity](crate::StageOptions::capacity), if it has one.
    pub capacity: Option<usize>,
    /// Whether it serves one cohort at a time ([`StageOptions::serial_cohort`](crate::StageOptions::serial_cohort)).
    pub is_serial: bool,
}

/// An edge of a [`CallGraph`]: invocations of one stage by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StageCall {
    /// The number of the invoking stage. `None` for calls from outside, that is, from the start of the program or other
    /// threads.
    pub from: Option<usize>,
    /// The number of the invoked stage.
    pub to: usize,
    /// Whether it was declared.
    pub is_declared: bool,
    /// The number of invocations so far; zero for a [`Graph`].
    pub observed: u64,
}

impl Graph {
    /// The call graph according to the [declarations](Self::calls) so far.
    pub fn call_graph(&self) -> CallGraph {
        let names = self.names();
        let mut stages: Vec<_> = names.iter().map(|name| StageNode::named(name)).collect();
        let mut calls = Vec::new();
        for (from, declared) in self.declared() {
            stages[from] = StageNode::of(declared);
            calls.extend(declared_calls(declared).map(|to| StageCall {
                from: Some(from),
                to,
                is_declared: true,
                observed: 0,
            }));
        }
        CallGraph { stages, calls }
    }
}

impl Control {
    /// The call graph. It contains the [declared](Graph::calls) calls and the calls that the processors have counted.
    /// Wake-ups and results are not calls.
    ///
    /// ```
    /// let mut graph = phalanx_core::Graph::new();
    /// let (parse, answer) = (graph.shared("parse", ()), graph.shared("answer", ()));
    /// graph.calls(parse, answer);
    /// let processor = graph.build(1).remove(0).build(Box::new(|| ()));
    /// processor.enter(|| answer.dispatch(|_| async {})).unwrap();
    /// let found = processor.control().call_graph();
    /// assert_eq!((found.calls[0].from, found.calls[0].observed), (Some(0), 0));
    /// assert_eq!((found.calls[1].from, found.calls[1].observed), (None, 1));
    /// ```
    pub fn call_graph(&self) -> CallGraph {
        let count = self.0.stages.len();
        let mut invoked = vec![0; (count + 1) * count];
        for counters in &self.0.counters {
            invoked.iter_mut().zip(counters.invoked()).for_each(|(sum, count)| *sum += count);
        }
        let is_declared = |from: usize, to: usize| {
            let stage = self.0.stages.get(from);
            stage.is_some_and(|stage| declared_calls(stage).contains(to))
        };
        let calls = invoked.into_iter().enumerate().map(|(at, observed)| {
            let (from, to) = (at / count, at % count);
            let is_declared = is_declared(from, to);
            StageCall { from: (from < count).then_some(from), to, is_declared, observed }
        });
        CallGraph {
            stages: self.0.stages.iter().map(StageNode::of).collect(),
            calls: calls.filter(|call| call.is_declared || call.observed > 0).collect(),
        }
    }
}

/// The stages that the program has declared, and the one that the stage's policy implies.
fn declared_calls(stage: &StageDeclaration) -> StageSet {
    let implied = stage.runner.map(usize::from).into_iter().collect();
    stage.calls.unwrap_or_default().union(implied)
}

impl StageNode {
    fn named(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    fn of(declared: &StageDeclaration) -> Self {
        Self {
            name: declared.name,
            is_declared: declared.calls.is_some(),
            capacity: (declared.capacity < usize::MAX).then_some(declared.capacity),
            is_serial: declared.runner.is_some(),
        }
    }
}

impl CallGraph {
    /// Describes the observed calls that are missing in the declarations of stages that declare their calls.
    ///
    /// ```
    /// let mut graph = phalanx_core::Graph::new();
    /// let (parse, answer) = (graph.shared("parse", ()), graph.shared("answer", ()));
    /// graph.calls(answer, ());
    /// let processor = graph.build(1).remove(0).build(Box::new(|| ()));
    /// let invoke = move || answer.dispatch(move |_| async move { parse.dispatch(|_| async {}).unwrap() });
    /// processor.enter(invoke).unwrap();
    /// while processor.turn(&phalanx_core::IdleWorld).ran > 0 {}
    /// let undeclared = processor.control().call_graph().undeclared_calls();
    /// assert_eq!(undeclared, ["\"answer\" invokes \"parse\""]);
    /// ```
    pub fn undeclared_calls(&self) -> Vec<String> {
        let calls = self.calls.iter().filter(|call| self.is_undeclared(call));
        calls.map(|call| self.describe(call)).collect()
    }

    /// Describes the declared calls.
    pub fn declared(&self) -> Vec<String> {
        let calls = self.calls.iter().filter(|call| call.is_declared);
        calls.map(|call| self.describe(call)).collect()
    }

    /// Describes the declared calls that were not observed.
    pub fn unobserved_calls(&self) -> Vec<String> {
        let calls = self.calls.iter().filter(|call| call.observed == 0);
        calls.map(|call| self.describe(call)).collect()
    }

    /// The cycles of calls through a stage that is bounded or that serves one cohort at a time. If such a stage is in a
    /// cycle, at least one of the returned cycles contains it.
    pub fn cycles(&self) -> Vec<CallCycle> {
        cycles(self)
    }

    pub(crate) fn is_undeclared(&self, call: &StageCall) -> bool {
        !call.is_declared && call.from.is_some_and(|from| self.stages[from].is_declared)
    }

    fn describe(&self, call: &StageCall) -> String {
        let from = call.from.map_or("the outside", |from| self.stages[from].name);
        format!("\"{from}\" invokes \"{}\"", self.stages[call.to].name)
    }
}
