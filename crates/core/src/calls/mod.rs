//! The call graph: which stages invoke which.
//!
//! 2002 §3.3 sees the possibility to verify properties, such as freedom of deadlocks, of servers whose control logic is a
//! finite state automaton. The graph combines the calls that a program [declares](crate::Graph::calls) with those that
//! its processors have counted, and [`cycle`] finds the cycles in which operations can wait for each other.

pub(crate) mod cycle;
pub(crate) mod dot;
pub(crate) mod graph;
