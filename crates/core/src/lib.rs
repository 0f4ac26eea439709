//! Stages, operations and cohorts: the pure scheduler under Phalanx.
//!
//! A [`Graph`] declares a program's stages in wavefront order. Built, it gives a [`Seed`] for each
//! processor, which becomes a [`Processor`] on its thread and runs there, handed a [`World`]: a clock
//! and the way to I/O. This crate itself never calls the operating system, starts a thread, reads a
//! clock or draws a random number.
//!
//! Read it in the order in which a request meets it: `graph` and `stage` (declaring and
//! invoking), `policy` (reaching state), `operation` and `slab` (where an operation lives), `queue`
//! (where it waits), `wavefront` and `cohort` (how it runs), `auto` and `ladder` (in how large a cohort), `direct` (when it does not wait), `call`, `join`, `rendezvous` (how its
//! result gets back), `remote`, `post`, `ring`, `parking`, `waker` (how processors and foreign
//! threads reach each other), `session` (how it ends early), `admission`, `credits` and `congestion`
//! (what is not even begun), `wheel` and `time`, `profile`; `stepping` and `residue` (how a
//! simulation drives it, and what must be gone at rest).
//!
//! The papers are Larus and Parkes: *Using Cohort Scheduling to Enhance Server Performance*, the
//! technical report of 2001 (tr2001) and the USENIX paper of 2002.

mod control;
mod error;
mod future;
mod handle;
#[cfg(all(test, loom))]
mod loom;
mod mailbox;
mod memory;
mod metrics;
mod operation;
mod panic;
mod processor;
mod program;
mod queue;
mod session;
mod sim;
mod stage;
mod state;
mod sync;

pub use crate::error::{CallError, MoveError};
pub use crate::future::admission::{Admission, DEFAULT_TARGET_WAIT, Permit, Shed};
pub use crate::future::call::Call;
pub use crate::future::capacity::Room;
pub use crate::future::event::{Event, Trigger, event};
pub use crate::future::join::{Children, Join, join};
pub use crate::future::remote_event::{RemoteEvent, RemoteTrigger, remote_event};
pub use crate::future::reply::Reply;
pub use crate::future::select::{FirstOf, first_of};
pub use crate::future::sleep::{Sleep, TimedOut, now, sleep, timeout, yield_now};
pub use crate::handle::balanced::{BalancedStage, HomedStage};
pub use crate::handle::cohort::{CohortStage, PartitionedCohortStage};
pub use crate::handle::custom::{Policy, Stage};
pub use crate::handle::graph::{
    DEFAULT_COHORT_TIME, DEFAULT_MAX_COHORT, DEFAULT_PARTITIONS_PER_PROCESSOR, Graph, Place,
    StageOptions,
};
pub use crate::handle::handles::{ExclusiveStage, PartitionedStage, SharedStage};
pub use crate::handle::within::Within;
#[cfg(feature = "plant")]
#[doc(hidden)]
pub use crate::mailbox::fault_injection as plant;
pub use crate::mailbox::mailbox::MAX_STAGES;
pub use crate::mailbox::parking::Unpark;
pub use crate::memory::pool::Pooled;
pub use crate::memory::region::Region;
pub use crate::metrics::counters::{
    COHORT_BUCKETS, Column, Crossings, ProcessorView, Profile, ShedView, StageView,
};
pub use crate::metrics::histogram::{TIME_BUCKETS, Times, bucket_end_ns};
pub use crate::metrics::watch::Running;
pub use crate::panic::PanicReport;
pub use crate::processor::batch::{Cohort, Entry};
pub use crate::processor::interleave::{MAX_INTERLEAVED, Prefetch, prefetch};
pub use crate::processor::policy::cache_affinity::HomedOptions;
pub use crate::processor::policy::cohort_tuner::LadderView;
pub use crate::processor::prefetch_next::load_ahead;
pub use crate::processor::processor::Processor;
pub use crate::processor::turn::{Turn, World};
pub use crate::processor::waker::{MAX_OPERATIONS, wake_contained};
pub use crate::program::operation_sizes::{ByteTable, ObjectBytes, OperationBytes, WIDE_OPERATION};
pub use crate::program::processor_id::ProcessorId;
pub use crate::program::program::{Control, Phase, Seed, drain};
pub use crate::program::trace::{CohortRecord, Trace};
pub use crate::session::table::{Hold, Session, SessionEnd};
pub use crate::sim::leak_check::Remnant;
pub use crate::sim::stepping::Steps;
pub use crate::state::exclusive::{Exclusive, Gate, Shared};
pub use crate::state::partition::Partition;
pub use crate::state::rebuildable::Rebuilding;
