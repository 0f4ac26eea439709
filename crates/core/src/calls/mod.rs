//! The call graph of a program's stages.
//!
//! 2002 §3.3 suggests that properties such as freedom from deadlocks could be verified for servers whose control logic
//! is a finite state automaton. The graph combines the calls that a program [declares](crate::Graph::calls) with those
//! that its processors have counted. [`cycle`] finds the cycles in which operations can wait for each other.

pub(crate) mod cycle;
pub(crate) mod dot;
pub(crate) mod graph;
