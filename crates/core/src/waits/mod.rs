//! Deadlock diagnosis: the operations that wait for each other in a cycle.
//!
//! 2002 §3.3 sees the possibility to verify servers whose control logic is a finite state automaton. This is a check of
//! a running program, not a proof. Nothing is recorded for it while operations run: [`inspect`] reads on demand what the
//! scheduler knows anyway, and [`cycle`] finds the cycles in what all processors report.

pub(crate) mod cycle;
pub(crate) mod graph;
pub(crate) mod inspect;
