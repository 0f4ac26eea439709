//! The wait-for graph of a program, as a pure function of the processors' reports.
//!
//! An operation may wait for several groups of nodes. It continues as soon as all nodes of any one group have
//! continued. A join has one group with all its children; a `select` over calls has one group per call.
//!
//! A node is *blocked* if each of its groups contains a blocked node. To find the blocked nodes, nodes that are not
//! blocked are removed one after the other until none is left. A node without groups is never blocked: it waits for
//! something that is not in the graph, such as I/O or a timer.

use std::collections::{HashMap, HashSet};

/// A node of the graph, which can wait or be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// An operation: the index of its processor and of its slot, and the serial of the slot's use.
    Operation { processor: usize, index: u32, serial: u64 },
    /// The queue of a stage on one processor.
    Queue { processor: usize, stage: u8 },
}

/// The groups of nodes that each node waits for.
pub(crate) type WaitGraph = HashMap<Node, Vec<Vec<Node>>>;

/// The nodes that can never continue according to the graph.
pub(crate) fn blocked(graph: &WaitGraph) -> HashSet<Node> {
    let mut blocked: HashSet<Node> =
        graph.iter().filter(|(_, groups)| !groups.is_empty()).map(|(node, _)| *node).collect();
    loop {
        let continues =
            |node: &&Node| graph[*node].iter().any(|all| !all.iter().any(|n| blocked.contains(n)));
        let free: Vec<Node> = blocked.iter().filter(continues).copied().collect();
        if free.is_empty() {
            return blocked;
        }
        free.iter().for_each(|node| _ = blocked.remove(node));
    }
}

/// The cycles of blocked nodes. No node is in two of the returned cycles. The order of the result depends only on the
/// nodes.
pub(crate) fn cycles(graph: &WaitGraph) -> Vec<Vec<Node>> {
    let blocked = blocked(graph);
    let mut starts: Vec<Node> = blocked.iter().copied().collect();
    starts.sort_by_key(|node| match *node {
        Node::Operation { processor, index, .. } => (processor, 0, index),
        Node::Queue { processor, stage } => (processor, 1, u32::from(stage)),
    });
    let (mut visited, mut cycles) = (HashSet::new(), Vec::new());
    for start in starts {
        let mut path = Vec::new();
        let mut next = Some(start);
        while let Some(node) = next.filter(|node| visited.insert(*node)) {
            path.push(node);
            next = graph[&node].iter().flatten().copied().find(|node| blocked.contains(node));
        }
        // The walk has reached itself, or an earlier walk, whose cycle is already known.
        if let Some(first) = path.iter().position(|node| Some(*node) == next) {
            cycles.push(path.split_off(first));
        }
    }
    cycles
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn node(index: u32) -> Node {
        Node::Operation { processor: 0, index, serial: 0 }
    }

    /// The cycles of a graph of operations, each with its groups.
    fn cycles_of(graph: &[(u32, &[&[u32]])]) -> Vec<Vec<Node>> {
        let groups = |groups: &[&[u32]]| -> Vec<Vec<Node>> {
            groups.iter().map(|all| all.iter().copied().map(node).collect()).collect()
        };
        cycles(&graph.iter().map(|(waits, all)| (node(*waits), groups(all))).collect())
    }

    fn nodes(indices: &[u32]) -> Vec<Node> {
        indices.iter().copied().map(node).collect()
    }

    #[test]
    fn finds_each_cycle_once_and_nothing_that_only_leads_to_it() {
        // 0 → 1 → 2 → 1, and 4 → 4; 3 waits for both.
        let graph: &[(u32, &[&[u32]])] =
            &[(0, &[&[1]]), (1, &[&[2]]), (2, &[&[1]]), (3, &[&[4], &[1]]), (4, &[&[4]])];
        assert_eq!(cycles_of(graph), [nodes(&[1, 2]), nodes(&[4])]);
    }

    #[test]
    fn a_chain_that_ends_is_no_cycle() {
        assert!(cycles_of(&[(0, &[&[1]]), (1, &[&[2]]), (2, &[])]).is_empty());
    }

    #[test]
    fn all_of_a_group_must_continue_but_only_one_group() {
        // 1 waits for 0 and 9, which is free; 0 waits for 1.
        assert_eq!(cycles_of(&[(0, &[&[1]]), (1, &[&[9, 0]])]), [nodes(&[0, 1])]);
        // 1 waits for 0 or 9.
        assert!(cycles_of(&[(0, &[&[1]]), (1, &[&[9], &[0]])]).is_empty());
    }
}
