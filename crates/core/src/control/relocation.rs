//! Relocation: the choice of open connections to move to another processor.
//!
//! A second processor costs additional CPU time, because cohorts are smaller and each processor sleeps and wakes up
//! separately. It pays off only if one core is not enough and another core is idle. So the law *gathers* the
//! connections of two processors on the first of them if one core can do the work of both, and it *spreads* the
//! connections of a processor that fully uses a core if there is an idle core.
//!
//! Loads are CPU time, not time awake: a processor that waits for a core is awake, but additional processors would wait
//! as well. Between the two rules there is a wide range of loads in which nothing moves.

use crate::control::placement::Candidate;

/// The load, in per mille of a core, up to which one processor takes the work of two.
const GATHER_LOAD: u32 = 700;
/// The same if no core is idle. Two processors then compete for the CPU time of one.
const GATHER_LOAD_CONTENDED: u32 = 1_100;
/// A processor with less load is not worth gathering.
const MIN_LOAD: u32 = 10;
/// The load from which a processor counts as fully using a core.
const FULL_LOAD: u32 = 850;
/// The load up to which a processor takes connections from one that fully uses a core.
const SPREAD_LOAD: u32 = 400;
/// The total idle time of all cores, in per mille of one core, below which all cores count as in use, and from which
/// one counts as idle.
const NONE_IDLE: u32 = 100;
const ONE_IDLE: u32 = 500;

/// A decision to move connections of one processor to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// The processor that receives the connections.
    pub to: usize,
    /// The number of connections to move.
    pub connections: usize,
    /// Whether the two processors share the work afterwards, instead of leaving it to one.
    pub spreads: bool,
}

/// Decides which connections `own` gives to one of `others`. `idle` returns the total idle time of all cores in the
/// recent past, in per mille of one core.
pub fn relocate_connections(
    own: &Candidate,
    others: &[Candidate],
    idle: impl FnOnce() -> u32,
) -> Option<Relocation> {
    let gather =
        |to: &Candidate| Relocation { to: to.processor, connections: own.sockets, spreads: false };
    let mut lower = others.iter().filter(|to| to.processor < own.processor && to.load >= MIN_LOAD);
    let fits = |max_load: u32| move |to: &&Candidate| own.load + to.load <= max_load;
    if let Some(to) = lower.clone().find(fits(GATHER_LOAD)) {
        return Some(gather(to));
    }
    let contended = lower.find(fits(GATHER_LOAD_CONTENDED));
    let least_loaded = others.iter().min_by_key(|to| to.load);
    let least_loaded = least_loaded.filter(|to| own.load >= FULL_LOAD && to.load <= SPREAD_LOAD);
    if contended.is_none() && least_loaded.is_none() {
        return None;
    }
    match (idle(), contended, least_loaded) {
        (..NONE_IDLE, Some(to), _) => Some(gather(to)),
        (ONE_IDLE.., _, Some(to)) if own.sockets > 1 => {
            let share = own.sockets * (own.load - to.load) as usize / (2 * own.load) as usize;
            Some(Relocation { to: to.processor, connections: share.max(1), spreads: true })
        }
        _ => None,
    }
}

/// Whether a connection of a processor with the load `own` should move to one with the load `other` that has the state
/// which the connection uses: one core can do the work of both. `idle` is that of [`relocate_connections`].
pub fn may_join(own: u32, other: u32, idle: impl FnOnce() -> u32) -> bool {
    let load = own + other;
    load <= GATHER_LOAD || (load <= GATHER_LOAD_CONTENDED && idle() < NONE_IDLE)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The decision of processor number `own` among processors with these sockets and loads.
    fn decide(own: usize, processors: &[(usize, u32)], idle: u32) -> Option<(usize, usize)> {
        let mut all: Vec<_> = processors
            .iter()
            .enumerate()
            .map(|(processor, &(sockets, load))| Candidate {
                processor,
                sockets,
                arriving: 0,
                load,
            })
            .collect();
        let own = all.remove(own);
        relocate_connections(&own, &all, || idle).map(|moved| (moved.to, moved.connections))
    }

    #[test]
    fn connections_for_one_core_gather_on_the_first_processor() {
        assert_eq!(decide(1, &[(32, 300), (32, 300)], 1_000), Some((0, 32)));
        assert_eq!(decide(0, &[(32, 300), (32, 300)], 1_000), None, "the first one keeps its own");
        assert_eq!(decide(1, &[(32, 400), (32, 400)], 1_000), None);
        assert_eq!(decide(2, &[(9, 600), (9, 300), (9, 300)], 1_000), Some((1, 9)));
    }

    #[test]
    fn a_processor_alone_keeps_its_connections() {
        assert_eq!(decide(1, &[(5, 0), (32, 300)], 1_000), None);
    }

    #[test]
    fn processors_that_compete_for_cores_gather() {
        assert_eq!(decide(1, &[(32, 500), (32, 500)], 0), Some((0, 32)));
        assert_eq!(decide(1, &[(32, 500), (32, 500)], 300), None);
        assert_eq!(decide(1, &[(32, 600), (32, 600)], 0), None, "one core cannot do it");
    }

    #[test]
    fn connections_join_their_state_while_one_core_suffices() {
        assert!(may_join(300, 400, || 1_000) && !may_join(300, 500, || 1_000));
        assert!(may_join(500, 600, || 0) && !may_join(600, 600, || 0), "no core is idle");
    }

    #[test]
    fn a_full_core_spreads_to_an_idle_one() {
        assert_eq!(decide(0, &[(64, 1_000), (0, 0)], 1_000), Some((1, 32)));
        assert_eq!(decide(0, &[(64, 1_000), (0, 0)], 400), None, "no core is idle");
        assert_eq!(decide(0, &[(64, 800), (0, 0)], 1_000), None, "it has time left");
        assert_eq!(decide(0, &[(1, 1_000), (0, 0)], 1_000), None, "one cannot be divided");
        assert_eq!(decide(0, &[(64, 1_000), (9, 500), (3, 200)], 1_000), Some((2, 25)));
    }

    proptest! {
        /// The processors of a spread do not gather at the same load.
        #[test]
        fn a_spread_is_stable(sockets in 2usize..1_000, load in 0u32..1_001, idle in 0u32..2_000) {
            let all = [(sockets, load), (0, 0)];
            if let Some((to, moved)) = decide(0, &all, idle) {
                prop_assert!(to == 1 && (1..sockets).contains(&moved));
                let there = load * moved as u32 / sockets as u32;
                let after = [(sockets - moved, load - there), (moved, there)];
                prop_assert_eq!(decide(1, &after, idle), None);
                prop_assert_eq!(decide(0, &after, idle), None);
            }
        }
    }
}
