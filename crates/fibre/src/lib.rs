//! Fibres: operations written as blocking code.
//!
//! A fibre is an operation with its own stack. Its body is an ordinary closure, and it suspends inside ordinary calls,
//! such as `read` of [`std::io::Read`], instead of at an `await`. The scheduler runs it like any other operation: in
//! the cohorts of its stage, in the session of its caller, with deadlines, counters and simulation.
//!
//! ```
//! use std::time::Duration;
//! use phalanx_core::{CallError, SharedStage};
//! use phalanx_fibre::LocalFibres;
//!
//! async fn wait_twice(stage: SharedStage<Duration>) -> Result<u32, CallError> {
//!     let call = stage.fibre(|pause, fibre| {
//!         (0..2).for_each(|_| fibre.sleep(*pause));
//!         2
//!     });
//!     call.await
//! }
//! ```
//!
//! | item | purpose |
//! |---|---|
//! | [`LocalFibres`], [`KeyedFibres`] | starting a fibre on a stage |
//! | [`Fibre`], [`wait`] | waiting for a future, sleeping, starting further fibres |
//! | [`sync`] | locks, conditions and channels that suspend the fibre |
//! | [`FibreLocal`] | values of one fibre |
//! | [`StackSize`], [`set_stack_limit`] | stacks |
//!
//! # Stacks
//! Each thread keeps the stacks of its fibres in pools, last in, first out. The pages below a stack are not accessible:
//! if a fibre overflows its stack, the process ends with a message that names the fibre's stage and its stack size.
//!
//! # Rules
//! - A fibre stays on its processor. Its body may use types that are not [`Send`].
//! - The end of a session unwinds its suspended fibres as a panic does, so destructors run. Code that catches panics
//!   must let this one pass: if a fibre keeps waiting, the process ends with a message.
//! - A fibre must not wait inside a closure of `with` or of `Session::scope`, nor in a destructor while it unwinds.
//!   Such a wait panics. A guard of [`std::sync::Mutex`] may be held across a wait, but the next fibre that locks the
//!   mutex then blocks the whole processor.
//! - Programs must be built with `panic = "unwind"`, because stacks cannot be unwound otherwise.

mod children;
mod control_block;
mod fibre;
mod fibre_local;
mod layout;
mod operation;
mod overflow;
mod pool;
mod scope;
mod stack;
mod stage;
pub mod sync;
mod wait_queue;

pub use self::fibre::{Fibre, wait};
pub use self::fibre_local::FibreLocal;
pub use self::pool::set_stack_limit;
pub use self::scope::{Scope, ScopedFibre};
pub use self::stack::StackSize;
pub use self::stage::{KeyedFibres, LocalFibres};
