//! Which objects may be live at which stage.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::model::{ENTRY, Stage, Transition};

/// The stages that requests may reach.
pub(crate) fn reachable(transitions: &BTreeSet<Transition>) -> BTreeSet<String> {
    distances(transitions).into_keys().map(str::to_owned).collect()
}

/// Sorts stages by the least number of transitions from the entry. Unreachable stages are the last.
pub(crate) fn sort(stages: &mut [Stage], transitions: &BTreeSet<Transition>) {
    let distance = distances(transitions);
    stages.sort_by_key(|stage| distance.get(stage.name.as_str()).copied().unwrap_or(usize::MAX));
}

/// The least number of transitions from the entry.
fn distances(transitions: &BTreeSet<Transition>) -> BTreeMap<&str, usize> {
    let mut distance = BTreeMap::from([(ENTRY, 0_usize)]);
    let mut todo = VecDeque::from([ENTRY]);
    while let Some(from) = todo.pop_front() {
        for edge in transitions.iter().filter(|edge| edge.from == from) {
            if !distance.contains_key(edge.to.as_str()) {
                distance.insert(&edge.to, distance[from] + 1);
                todo.push_back(&edge.to);
            }
        }
    }
    distance
}

/// Fills in `live`: an object is live after a stage if it was live before or the stage allocates it, unless the stage
/// frees it on every path.
pub(crate) fn propagate(stages: &mut [Stage], transitions: &BTreeSet<Transition>) {
    let mut live: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    loop {
        let mut has_changed = false;
        for edge in transitions {
            let Some(from) = stages.iter().find(|stage| stage.name == edge.from) else { continue };
            let before = live.get(&from.name).cloned().unwrap_or_default();
            let live_after =
                before.iter().chain(&from.allocates).filter(|o| !from.frees.contains(o));
            let to = live.entry(edge.to.clone()).or_default();
            for object in live_after {
                has_changed |= to.insert(object.clone());
            }
        }
        if !has_changed {
            break;
        }
    }
    for stage in stages {
        stage.live = live.remove(&stage.name).unwrap_or_default().into_iter().collect();
    }
}

/// The objects that are live during a stage.
pub(crate) fn during(stage: &Stage) -> BTreeSet<&str> {
    stage.live.iter().chain(&stage.allocates).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Place;

    fn stage(name: &str, allocates: &[&str], frees: &[&str]) -> Stage {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Stage {
            name: name.to_owned(),
            at: at(),
            allocates: owned(allocates),
            frees: owned(frees),
            may_free: Vec::new(),
            live: Vec::new(),
            bytes: 0,
            stack: None,
            traced: None,
        }
    }

    fn at() -> Place {
        Place { file: "a.c".into(), line: 1 }
    }

    #[test]
    fn objects_live_until_they_are_freed_on_every_path() {
        let mut stages =
            [stage("b", &["y"], &["x"]), stage(ENTRY, &["x"], &[]), stage("c", &[], &[])];
        let edge = |from: &str, to: &str| {
            let (from, to) = (from.into(), to.into());
            Transition { from, to, at: at(), function: "f".into() }
        };
        let edges = BTreeSet::from([edge(ENTRY, "b"), edge("b", "c"), edge("c", "c")]);
        sort(&mut stages, &edges);
        assert_eq!(stages.each_ref().map(|stage| stage.name.as_str()), [ENTRY, "b", "c"]);
        propagate(&mut stages, &edges);
        assert_eq!(stages.each_ref().map(|stage| stage.live.join(" ")), ["", "x", "y"]);
        assert_eq!(during(&stages[1]), BTreeSet::from(["x", "y"]));
    }
}
