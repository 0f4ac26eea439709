//! Metrics: counters of the program, profiles, and snapshots of a running program.
//!
//! [`Profile`] is read in the process, from [`Control::profile`](crate::runtime::Control::profile). [`Snapshot`] is
//! the document of the admin pages (`/snapshot.json`), and [`Interval`] the difference of two. A [`Counter`] belongs
//! to the program:
//!
//! ```
//! use phalanx::Runtime;
//! use phalanx::metrics::Counter;
//!
//! let lost = Counter::new("kv_writes_lost", "Writes that failed.");
//! let runtime = Runtime::new().register_counter(&lost);
//! lost.add(1);
//! # let _ = runtime;
//! ```

#[doc(inline)]
pub use phalanx_core::{
    ByteTable, COHORT_BUCKETS, CohortRecord, Column, Crossings, LadderView, ObjectBytes,
    OperationBytes, ProcessorView, Profile, Running, ShedView, StageView, TIME_BUCKETS, Times,
    Trace, bucket_end_ns,
};

/// Formats figures as the admin pages do; for `phalanx top`.
#[doc(hidden)]
pub use crate::admin::human;
pub use crate::admin::{
    ArcInterval, ArcSnapshot, BytesSnapshot, ColumnSnapshot, CounterSnapshot, Interval,
    ObjectBytesSnapshot, OperationBytesSnapshot, ProcessorInterval, ProcessorSnapshot, Snapshot,
    StageInterval, StageSnapshot, TimesSnapshot, VERSION as SNAPSHOT_VERSION,
};
pub use crate::counter::Counter;
