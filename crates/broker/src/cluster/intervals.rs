//! Intervals, as parts of the time after which a node is lost.

/// A node tells that it is there.
pub(super) const HELLOS: u32 = 5;

/// A node tends its lanes.
pub(super) const TICKS: u32 = 25;
