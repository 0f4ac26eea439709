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

mod admission;
mod ahead;
mod auto;
mod balance;
mod batch;
mod budget;
mod bytes;
mod call;
mod cohort;
mod cohort_stage;
mod congestion;
mod credits;
mod custom;
mod deadline;
mod direct;
mod error;
mod event;
mod exclusive;
mod first_of;
mod graph;
mod histogram;
mod hold;
mod home;
mod inside;
mod intake;
mod invoke;
mod join;
mod ladder;
mod life;
#[cfg(all(test, loom))]
mod loom;
mod moving;
mod operation;
mod order;
mod outbox;
mod panic_report;
mod parking;
mod partition;
#[cfg(feature = "plant")]
#[doc(hidden)]
pub mod plant;
mod policy;
mod pool;
mod post;
mod prefetch;
mod processor;
mod processor_id;
mod profile;
mod program;
mod proxy;
mod queue;
mod rebuild;
mod region;
mod remote;
mod remote_event;
mod rendezvous;
mod reply;
mod residue;
mod ring;
mod roaming;
mod room;
mod rules;
mod serial_cohort;
mod session;
mod shutdown;
mod slab;
mod spinning;
mod stage;
mod stepping;
mod sync;
mod tally;
mod there;
mod threshold;
mod time;
mod trace;
mod waker;
mod watch;
mod wavefront;
mod wheel;
mod within;

pub use admission::{Admission, DEFAULT_TARGET_WAIT, Permit, Shed};
pub use ahead::load_ahead;
pub use auto::LadderView;
pub use batch::{Cohort, Entry};
pub use bytes::{ByteTable, ObjectBytes, OperationBytes, WIDE_OPERATION};
pub use call::Call;
pub use cohort_stage::{CohortStage, PartitionedCohortStage};
pub use custom::{Policy, Stage};
pub use error::{CallError, MoveError};
pub use event::{Event, Trigger, event};
pub use first_of::{FirstOf, first_of};
pub use graph::{
    DEFAULT_COHORT_TIME, DEFAULT_MAX_COHORT, DEFAULT_PARTITIONS_PER_PROCESSOR, Graph, Place,
    StageOptions,
};
pub use histogram::{TIME_BUCKETS, Times, bucket_end_ns};
pub use home::HomedOptions;
pub use join::{Children, Join, join};
pub use panic_report::PanicReport;
pub use parking::Unpark;
pub use partition::Partition;
pub use policy::{Exclusive, Gate, Shared};
pub use pool::Pooled;
pub use post::MAX_STAGES;
pub use prefetch::{MAX_INTERLEAVED, Prefetch, prefetch};
pub use processor::Processor;
pub use processor_id::ProcessorId;
pub use profile::{COHORT_BUCKETS, Column, Crossings, ProcessorView, Profile, ShedView, StageView};
pub use program::{Control, Phase, Seed, drain};
pub use rebuild::Rebuilding;
pub use region::Region;
pub use remote_event::{RemoteEvent, RemoteTrigger, remote_event};
pub use reply::Reply;
pub use residue::Remnant;
pub use roaming::{BalancedStage, HomedStage};
pub use room::Room;
pub use session::{Hold, Session, SessionEnd};
pub use stage::{ExclusiveStage, PartitionedStage, SharedStage};
pub use stepping::Steps;
pub use time::{Sleep, TimedOut, now, sleep, timeout, yield_now};
pub use trace::{CohortRecord, Trace};
pub use waker::{MAX_OPERATIONS, wake_contained};
pub use watch::Running;
pub use wavefront::{Turn, World};
pub use within::Within;
