//! The stages as a program uses them: every answer is what evaluating the filters gives, in the order of the
//! calls, while the index changes; on threads, and in simulation.

mod publishers;
mod simulation;
mod threads;
#[path = "../../../matcher/tests/common/mod.rs"]
mod world;
