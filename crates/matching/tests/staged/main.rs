//! The stages from a program's view: every answer equals the evaluation of all filters, in the order of the
//! calls, while the index changes; on threads and in simulation.

mod publishers;
mod simulation;
mod threads;
#[path = "../../../matcher/tests/it/common.rs"]
mod world;
