//! Cycles of calls, and the deadlocks that they can cause.

use std::collections::VecDeque;
use std::fmt;

use crate::calls::graph::{CallGraph, StageNode};

/// Stages that invoke each other in a cycle which contains a stage whose queue can block the others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallCycle {
    /// The stages of the cycle. Each invokes the next, and the last one invokes the first.
    pub stages: Vec<StageNode>,
}

impl CallCycle {
    /// Whether the stages can deadlock. They can if one of them serves one cohort at a time, because the handler of a
    /// cohort may wait for an operation that is queued behind the cohort.
    ///
    /// A [capacity](crate::StageOptions::capacity) alone causes no deadlock. A waiting operation is in no queue, so
    /// every queue eventually becomes shorter.
    pub fn can_deadlock(&self) -> bool {
        self.stages.iter().any(|stage| stage.is_serial)
    }
}

/// `"a" → "b" → "a": …`
impl fmt::Display for CallCycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for stage in self.stages.iter().chain(self.stages.first()).enumerate() {
            let arrow = if stage.0 > 0 { " → " } else { "" };
            write!(f, "{arrow}\"{}\"", stage.1.name)?;
        }
        for stage in &self.stages {
            if stage.is_serial {
                write!(
                    f,
                    "; \"{}\" serves one cohort at a time: its handler must not await an operation that invokes it",
                    stage.name
                )?;
            }
            if let Some(capacity) = stage.capacity {
                write!(
                    f,
                    "; \"{}\" is bounded (capacity {capacity}): a call to it in the cycle can fail with Full",
                    stage.name
                )?;
            }
        }
        Ok(())
    }
}

/// See [`CallGraph::cycles`]. Each cycle is the shortest one through its first stage.
pub(super) fn cycles(graph: &CallGraph) -> Vec<CallCycle> {
    let mut cycles: Vec<Vec<usize>> = Vec::new();
    for (start, stage) in graph.stages.iter().enumerate() {
        let may_block = stage.is_serial || stage.capacity.is_some();
        if may_block && !cycles.iter().any(|cycle| cycle.contains(&start)) {
            cycles.extend(shortest(graph, start));
        }
    }
    let stages = |cycle: Vec<usize>| cycle.into_iter().map(|at| graph.stages[at].clone()).collect();
    cycles.into_iter().map(|cycle| CallCycle { stages: stages(cycle) }).collect()
}

/// The shortest path from `start` to itself.
fn shortest(graph: &CallGraph, start: usize) -> Option<Vec<usize>> {
    let mut before: Vec<Option<usize>> = vec![None; graph.stages.len()];
    let mut next = VecDeque::from([start]);
    while let Some(at) = next.pop_front() {
        for call in graph.calls.iter().filter(|call| call.from == Some(at)) {
            if call.to == start {
                let mut path: Vec<_> =
                    std::iter::successors(Some(at), |at| before[*at].filter(|_| *at != start))
                        .collect();
                path.reverse();
                return Some(path);
            }
            if before[call.to].is_none() {
                before[call.to] = Some(at);
                next.push_back(call.to);
            }
        }
    }
    None
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::{CallCycle, Cohort, Graph};

    fn names(cycle: &CallCycle) -> Vec<&'static str> {
        cycle.stages.iter().map(|stage| stage.name).collect()
    }

    #[test]
    fn a_cycle_is_reported_once_and_only_with_a_bounded_stage() {
        let mut graph = Graph::new();
        let a = graph.shared("a", ());
        let b = graph.stage("b").capacity(8).shared(());
        let c = graph.stage("c").capacity(8).shared(());
        let (d, e) = (graph.shared("d", ()), graph.shared("e", ()));
        graph.calls(a, (b, d));
        graph.calls(b, c);
        graph.calls(c, a);
        graph.calls(d, e);
        graph.calls(e, d);
        let cycles = graph.call_graph().cycles();
        assert_eq!(cycles.iter().map(names).collect::<Vec<_>>(), [["b", "c", "a"]]);
        assert!(!cycles[0].can_deadlock());
        let text = cycles[0].to_string();
        assert!(
            text.starts_with("\"b\" → \"c\" → \"a\" → \"b\"; \"b\" is bounded (capacity 8)"),
            "{text}"
        );
    }

    #[test]
    fn a_stage_that_invokes_itself_is_a_cycle() {
        let mut graph = Graph::new();
        let accept = graph.stage("accept").capacity(8).shared(());
        graph.calls(accept, accept);
        assert_eq!(graph.call_graph().cycles().iter().map(names).collect::<Vec<_>>(), [["accept"]]);
    }

    #[test]
    fn a_serial_cohort_can_wait_for_what_waits_behind_it() {
        let mut graph = Graph::new();
        let (commit, index) = (graph.shared("commit", ()), graph.shared("index", ()));
        let handler = async |_: &mut (), _: Cohort<(), ()>| ();
        let journal = graph.stage("journal").serial_cohort(|_| (), commit, handler);
        graph.calls(commit, index);
        assert!(graph.call_graph().cycles().is_empty());
        graph.calls(index, journal);
        let cycles = graph.call_graph().cycles();
        assert_eq!(cycles.iter().map(names).collect::<Vec<_>>(), [["journal", "commit", "index"]]);
        assert!(cycles[0].can_deadlock());
    }
}
