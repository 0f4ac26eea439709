//! What Phalanx measures: operations, load, and servers side by side.
//!
//! Every figure is one of paired arms in one run: the machine is assumed to be shared and noisy, so
//! ratios count and absolute times are only for orientation.

pub mod op;
pub mod stats;
