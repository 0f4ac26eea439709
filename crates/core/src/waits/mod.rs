//! Deadlock diagnosis: finding operations that wait for each other in a cycle.
//!
//! 2002 §3.3 suggests that servers whose control logic is a finite state automaton could be verified. This is a check
//! of a running program, not a proof. It needs no bookkeeping while operations run: [`inspect`] reads the scheduler's
//! existing data on demand, and [`cycle`] finds the cycles in the reports of all processors.

pub(crate) mod cycle;
pub(crate) mod graph;
pub(crate) mod inspect;
