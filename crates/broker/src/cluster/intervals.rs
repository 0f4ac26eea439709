//! Intervals, as fractions of the time after which a node is lost: how often a node sends its hello and checks its
//! lanes.

pub(super) const HELLOS_PER_TIMEOUT: u32 = 5;

pub(super) const TICKS_PER_TIMEOUT: u32 = 25;
