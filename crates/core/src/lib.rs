//! Stages, operations and cohorts: the pure scheduler under Phalanx.
//!
//! A [`Graph`] declares the stages of a program in wavefront order. [`Graph::build`] returns one
//! [`ProcessorBuilder`] per processor, which builds a [`Processor`] on its thread. The processor runs
//! with a [`World`]: a clock and the interface to I/O. This crate makes no system call, starts no
//! thread, reads no clock and draws no random number.
//!
//! Each folder is a layer. From the bottom up: `control`, `queue`, `operation`, `state`, `memory`, `mailbox`,
//! `session`, `metrics`, `stage`, `program`, `processor`, `request`, `future`, `handle`, `calls`, `sim`, `waits`. A
//! file imports only from its own layer and the layers below it.
//!
//! To follow an operation through the code, read `processor::operation` (its life cycle), `handle::local` (invocation),
//! `operation::slot` (its memory), `processor::run` (the processor's loop and its cohorts), `processor::remote` (calls
//! between processors) and `future::call` (waiting for the result).
//!
//! "The papers" are Larus and Parkes: *Using Cohort Scheduling to Enhance Server Performance*, the technical report of
//! 2001 (tr2001) and the USENIX paper of 2002.

#![allow(
    clippy::module_inception,
    reason = "a folder has a file for the type that it is named after"
)]

mod brief;
mod calls;
mod control;
mod error;
mod future;
mod gate;
mod handle;
#[cfg(all(test, loom))]
mod loom;
mod mailbox;
mod memory;
mod metrics;
mod open_scopes;
mod operation;
mod panic;
mod processor;
mod program;
mod queue;
mod request;
mod session;
mod sim;
mod stage;
mod stage_set;
mod state;
mod sync;
mod waits;
mod world;

pub use crate::calls::cycle::CallCycle;
pub use crate::calls::graph::{CallGraph, StageCall, StageNode};
pub use crate::control::ingress::Ingress;
pub use crate::control::placement::{Candidate, MAX_ARRIVING, place_connection};
pub use crate::control::profile::{
    Guide, GuideReason, GuideStep, Indicators, MAX_MIXES, Measured, Mix, Point, Sample, Setting,
    TrafficProfile, pareto,
};
pub use crate::control::relocation::{Relocation, may_join, relocate_connections};
pub use crate::control::scaling::{
    HighLoad, ProcessorLoad, Scaling, ScalingReason, ScalingStep, are_saturated,
};
pub use crate::error::{CallError, MoveError};
pub use crate::future::call::Call;
pub use crate::future::capacity::WaitForCapacity;
pub use crate::future::drain::drain;
pub use crate::future::join::{Children, Join, join};
pub use crate::future::notify::{Notified, Notify};
pub use crate::future::oneshot;
pub use crate::future::prefetch::{Prefetch, prefetch};
pub use crate::future::reply::Reply;
pub use crate::future::select::{SelectAll, select_all};
pub use crate::future::sleep::{Sleep, TimedOut, now, sleep, timeout, yield_now};
pub use crate::gate::{Gate, OperationName};
pub use crate::handle::graph::{Graph, StageSlot};
pub use crate::handle::local::{ExclusiveStage, LocalAccess, SharedStage};
pub use crate::handle::partitioned::PartitionedStage;
pub use crate::handle::policy::cohort::entry::{Cohort, Entry};
pub use crate::handle::policy::cohort::stage::{
    CohortStage, Items, KeyedItems, PartitionedCohortStage,
};
pub use crate::handle::policy::custom::Policy;
pub use crate::handle::policy::handle_set::{HandleSet, Handles};
pub use crate::handle::policy::moving::roaming::{
    AffineOptions, AffineStage, BalancedStage, Roaming,
};
pub use crate::handle::policy::moving::take_over::gather_partitions;
pub use crate::handle::policy::rebuild_options::Rebuilding;
pub use crate::handle::policy::replicated::{Offer, Published, Replicated, ReplicatedStage};
#[doc(hidden)]
pub use crate::handle::policy::stateless::{LocalQueuePolicy, Stateless};
pub use crate::handle::stage::Stage;
pub use crate::handle::stage_options::StageOptions;
#[cfg(feature = "fault-injection")]
#[doc(hidden)]
pub use crate::mailbox::fault_injection;
pub use crate::mailbox::parking::Unpark;
pub use crate::memory::prefetch::start_load;
pub use crate::memory::region::Region;
pub use crate::metrics::histogram::{
    COHORT_BUCKETS, HISTOGRAM_BUCKETS, Histogram, bucket_end_ns, bucket_of,
};
pub use crate::metrics::operation_types::{LARGE_OPERATION, ObjectBytes, OperationBytes};
pub use crate::metrics::recorder::CohortRecord;
pub use crate::metrics::tuner::CohortTunerView;
pub use crate::metrics::view::{
    Crossings, DurationStats, ProcessorView, Profile, ShedView, StageView,
};
#[doc(hidden)]
pub use crate::open_scopes::OpenScopes;
pub use crate::operation::id::MAX_OPERATIONS;
pub use crate::panic::PanicReport;
#[doc(hidden)]
pub use crate::panic::catch_panic;
pub use crate::processor::build::ProcessorBuilder;
pub use crate::processor::observe::byte_table::ByteTable;
pub use crate::processor::observe::running::Running;
pub use crate::processor::observe::trace::Trace;
pub use crate::processor::operation::waker::wake_catching_panics;
pub use crate::processor::policy::execute::interleave_ring::MAX_INTERLEAVED;
pub use crate::processor::policy::execute::prefetch_next::prefetch_wakers;
pub use crate::processor::policy::replication::replicas::Replica;
pub use crate::processor::processor::Processor;
pub use crate::processor::run::turn::Turn;
pub use crate::program::control::Control;
pub use crate::program::processor_id::ProcessorId;
pub use crate::program::program::Phase;
pub use crate::request::admission::{Permit, Shed};
pub use crate::request::pooled::Pooled;
pub use crate::request::session::{Session, SessionEnd, SessionGuard};
pub use crate::sim::leak_check::Leak;
pub use crate::sim::stepping::Steps;
pub use crate::stage::declaration::{
    DEFAULT_COHORT_TIME, DEFAULT_MAX_COHORT, DEFAULT_PARTITIONS_PER_PROCESSOR,
};
pub use crate::stage_set::MAX_STAGES;
pub use crate::state::exclusive::{Exclusive, Shared};
pub use crate::state::partition::Partition;
pub use crate::waits::cycle::{WaitCycle, WaitReason, WaitingOperation};
pub use crate::waits::inspect::Waits;
#[doc(hidden)]
pub use crate::world::IdleWorld;
pub use crate::world::World;
