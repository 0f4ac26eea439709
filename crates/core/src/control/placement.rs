//! Placement: the choice of the processor that serves a new connection.
//!
//! A small number of connections is cheapest on one processor, because several requests arrive during one sleep. If the
//! connections were spread over idle processors, each request would wake another processor. So the law *packs*: the
//! first processor that is not busy takes new connections, up to a small number. The number is small because most
//! connections do not move later, and idle connections that become busy together should not all be on one processor.
//! For connections that [can move](crate::control::relocation), the number is larger.
//!
//! Beyond that number the law *balances*: the processor with the fewest sockets takes the connection, unless the
//! processor that accepted it has at most a few more. A busy processor takes no connections while another one is not
//! busy.

/// The number of sockets up to which a processor is packed.
const PACK_SOCKETS: usize = 8;
/// The same for connections that can move later.
const PACK_MOVABLE: usize = 256;
/// The load, in per mille of time awake, from which a processor is no longer packed.
const PACK_LOAD: u32 = 650;
/// The load, in per mille of time awake, from which a processor is busy.
const BUSY_LOAD: u32 = 900;
/// The maximum number of connections on their way to one processor. Further connections stay with the processor that
/// accepted them, so that the queue between the two is bounded.
pub const MAX_ARRIVING: usize = 16;

/// A processor that may serve a connection.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The processor's number.
    pub processor: usize,
    /// The number of its open sockets, including those on their way to it.
    pub sockets: usize,
    /// The number of connections on their way to it.
    pub arriving: usize,
    /// The fraction of the recent past in which it was awake, in per mille.
    pub load: u32,
}

/// Chooses the processor that serves a connection which `here` has accepted: one of `candidates`, or `here`. `may_move`
/// tells whether the connection can be relocated later.
pub fn place_connection(here: usize, candidates: &[Candidate], may_move: bool) -> usize {
    let max_sockets = if may_move { PACK_MOVABLE } else { PACK_SOCKETS };
    let can_take =
        |candidate: &&Candidate| candidate.processor == here || candidate.arriving < MAX_ARRIVING;
    let open = candidates.iter().filter(can_take);
    let packed = open
        .clone()
        .find(|candidate| candidate.sockets < max_sockets && candidate.load < PACK_LOAD);
    if let Some(packed) = packed {
        return packed.processor;
    }
    let cost = |candidate: &Candidate| (candidate.load >= BUSY_LOAD, candidate.sockets);
    let Some(cheapest) = open.min_by_key(|candidate| cost(candidate)) else { return here };
    let own = candidates.iter().find(|candidate| candidate.processor == here);
    match own {
        Some(own) if own.load >= BUSY_LOAD && cheapest.load < BUSY_LOAD => cheapest.processor,
        Some(own) if own.sockets <= cheapest.sockets + max_surplus(cheapest.sockets) => here,
        _ => cheapest.processor,
    }
}

/// The difference in sockets up to which a hand-over does not pay off.
fn max_surplus(sockets: usize) -> usize {
    2 + sockets / 16
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Candidates with these sockets and loads, and none on their way.
    fn candidates(processors: &[(usize, u32)]) -> Vec<Candidate> {
        let numbered = processors.iter().enumerate();
        numbered
            .map(|(processor, &(sockets, load))| Candidate {
                processor,
                sockets,
                arriving: 0,
                load,
            })
            .collect()
    }

    fn place(here: usize, processors: &[(usize, u32)]) -> usize {
        place_connection(here, &candidates(processors), false)
    }

    /// Places `connections` one after another, accepted by random processors; loads stay zero.
    fn spread(processors: usize, connections: usize, seed: u64) -> Vec<usize> {
        let mut sockets = vec![(0, 0); processors];
        let mut state = seed;
        for _ in 0..connections {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let here = (state >> 33) as usize % processors;
            let placed = place(here, &sockets);
            sockets[placed].0 += 1;
        }
        sockets.into_iter().map(|(sockets, _)| sockets).collect()
    }

    #[test]
    fn few_connections_share_a_processor() {
        assert_eq!(spread(2, 4, 1), [4, 0]);
        assert_eq!(spread(32, 8, 1)[..2], [8, 0]);
        assert_eq!(spread(4, 20, 1), [8, 8, 4, 0]);
    }

    #[test]
    fn connections_that_may_move_share_a_processor_until_it_has_load() {
        let place =
            |sockets, load| place_connection(1, &candidates(&[(sockets, load), (0, 0)]), true);
        assert_eq!(place(200, 0), 0);
        assert_eq!(place(200, PACK_LOAD), 1);
        assert_eq!(place(PACK_MOVABLE, 0), 1);
    }

    #[test]
    fn a_processor_with_load_is_not_packed() {
        assert_eq!(place(0, &[(3, PACK_LOAD), (0, 0)]), 1);
        assert_eq!(place(0, &[(3, PACK_LOAD), (0, PACK_LOAD)]), 1);
    }

    #[test]
    fn a_busy_processor_takes_none_while_another_is_not() {
        assert_eq!(place(0, &[(8, 1000), (100, 300)]), 1);
        assert_eq!(place(1, &[(100, 300), (8, 1000)]), 0);
        assert_eq!(place(0, &[(8, 1000), (100, 1000)]), 0, "all are busy: the fewest sockets");
    }

    #[test]
    fn small_differences_are_not_worth_a_hand_over() {
        assert_eq!(place(1, &[(100, 300), (105, 300)]), 1);
        assert_eq!(place(1, &[(100, 300), (120, 300)]), 0);
    }

    #[test]
    fn a_processor_with_many_on_their_way_takes_no_more() {
        let mut all = candidates(&[(0, 0), (90, 0)]);
        all[0].arriving = MAX_ARRIVING;
        assert_eq!(place_connection(1, &all, false), 1);
        assert_eq!(place_connection(0, &all, false), 0, "its own connection is not on its way");
    }

    #[test]
    fn a_processor_that_is_no_candidate_gives_its_connections_away() {
        assert_eq!(place_connection(7, &candidates(&[(50, 300), (40, 300)]), false), 1);
        assert_eq!(place_connection(7, &[], false), 7);
    }

    proptest! {
        /// No distribution of accepted connections leaves one processor with far more than another.
        #[test]
        fn many_connections_are_balanced(processors in 1usize..9, seed: u64) {
            let spread = spread(processors, 100 * processors, seed);
            let (min, max) = (spread.iter().min().unwrap(), spread.iter().max().unwrap());
            prop_assert!(max - min <= 2 + max_surplus(*min), "{spread:?}");
        }
    }
}
