//! Intervals, as fractions of the time after which a node is lost.

/// The interval at which a node announces itself.
pub(super) const HELLOS: u32 = 5;

/// The interval at which a node tends its lanes.
pub(super) const TICKS: u32 = 25;
