//! The memory map: which objects share a pool, and the size of its slots.

use std::collections::BTreeSet;

use crate::model::{Analysis, Object};

/// Size of a cache line in bytes.
const LINE: u64 = 64;

/// Objects of which at most one is live in each request, so that one slot for each request is enough.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Pool {
    pub(crate) objects: Vec<String>,
    pub(crate) slot_bytes: u64,
}

/// Assigns objects to pools, the largest object first.
pub(crate) fn assign(analysis: &Analysis, objects: &[&Object]) -> Vec<Pool> {
    let mut sorted = objects.to_vec();
    sorted.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.name.cmp(&b.name)));
    let mut pools: Vec<Pool> = Vec::new();
    for object in sorted {
        let shared = pools.iter_mut().find(|pool| {
            pool.objects.iter().all(|other| !live_together(analysis, &object.name, other))
        });
        match shared {
            Some(pool) => pool.objects.push(object.name.clone()),
            None => pools.push(Pool {
                objects: vec![object.name.clone()],
                slot_bytes: slot_bytes(object.bytes.unwrap_or(0)),
            }),
        }
    }
    pools
}

/// Whether two objects are live in the same stage.
fn live_together(analysis: &Analysis, one: &str, other: &str) -> bool {
    analysis.stages.iter().any(|stage| {
        let live: BTreeSet<&str> =
            stage.live.iter().chain(&stage.allocates).map(String::as_str).collect();
        live.contains(one) && live.contains(other)
    })
}

/// An odd number of lines, so that the first lines of the slots are in different cache sets.
fn slot_bytes(bytes: u64) -> u64 {
    let lines = bytes.div_ceil(LINE).max(1);
    (lines | 1) * LINE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Place, Stage};

    #[test]
    fn objects_share_a_pool_unless_a_stage_has_both() {
        let at = Place { file: "a.c".into(), line: 1 };
        let stage = |name: &str, live: &[&str], allocates: &[&str]| Stage {
            name: name.to_owned(),
            at: at.clone(),
            allocates: allocates.iter().map(|&name| name.to_owned()).collect(),
            frees: Vec::new(),
            may_free: Vec::new(),
            live: live.iter().map(|&name| name.to_owned()).collect(),
            bytes: 0,
            stack: None,
            traced: None,
        };
        let object = |name: &str, bytes| Object {
            name: name.to_owned(),
            bytes: Some(bytes),
            allocated: Vec::new(),
            freed: Vec::new(),
            is_pooled: true,
        };
        let analysis = Analysis {
            program: "a".into(),
            stages: vec![stage("1", &["big"], &["small"]), stage("2", &["small"], &["late"])],
            transitions: Vec::new(),
            objects: vec![object("small", 65), object("big", 4096), object("late", 1)],
            global_bytes: 0,
            globals: Vec::new(),
            stack: None,
            warnings: Vec::new(),
            spill: None,
            elsewhere: Vec::new(),
        };
        let objects: Vec<_> = analysis.objects.iter().collect();
        let pools = assign(&analysis, &objects);
        let names: Vec<_> = pools.iter().map(|pool| pool.objects.join(" ")).collect();
        assert_eq!(names, ["big late", "small"]);
        assert_eq!(pools.iter().map(|pool| pool.slot_bytes).collect::<Vec<_>>(), [65 * 64, 3 * 64]);
    }
}
