//! Metrics: counters of the program, profiles, and snapshots of a running program.
//!
//! A program reads its own [`Profile`] with [`Control::profile`](crate::runtime::Control::profile). A [`Snapshot`] is
//! the document that the admin page `/snapshot.json` serves, and an [`Interval`] is the difference of two snapshots. A
//! program can register its own [`Counter`]s, [`Gauge`]s and [`Times`]:
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

mod byte_table;
mod counter;
mod counter_block;
mod family;
mod gauge;
/// Formats numbers like the admin pages. Used by `phalanx top`.
#[doc(hidden)]
pub mod human;
mod interval;
mod placement;
#[cfg(feature = "metrics")]
mod recorder;
mod registered;
mod rows;
pub(crate) mod snapshot;
mod times;

#[doc(inline)]
pub use phalanx_core::{
    ByteTable, COHORT_BUCKETS, CohortRecord, CohortTunerView, Crossings, DurationStats,
    HISTOGRAM_BUCKETS, Histogram, ObjectBytes, OperationBytes, ProcessorView, Profile, Running,
    ShedView, StageView, Trace, WaitCycle, WaitReason, WaitingOperation, Waits, bucket_end_ns,
};

pub use counter::Counter;
pub use counter_block::CounterBlock;
pub use family::{Family, Member};
pub use gauge::Gauge;
pub use interval::{ArcInterval, Interval, ProcessorInterval, StageInterval};
#[cfg(feature = "metrics")]
pub use recorder::Recorder;
pub(crate) use registered::Registered;

pub use byte_table::{BytesSnapshot, ObjectBytesSnapshot, OperationBytesSnapshot};
pub use placement::{CostSnapshot, DecisionSnapshot, PlacementSnapshot};
pub use times::Times;

pub use snapshot::{
    ArcSnapshot, CohortTunerSnapshot, ColumnSnapshot, CounterSnapshot, GaugeSnapshot,
    HistogramSnapshot, ProcessorSnapshot, Snapshot, StageSnapshot, TimesSnapshot,
    VERSION as SNAPSHOT_VERSION,
};
