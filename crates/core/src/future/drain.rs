//! Draining the program from within an operation.

/// Drains the current program, like [`Control::drain`](crate::Control::drain).
///
/// Code inside the program should use this function. If a stage's state owned a [`Control`](crate::Control), it would
/// keep the program's memory, and thus itself, alive forever.
///
/// ```
/// use phalanx_core::{Graph, Phase, drain};
///
/// let processor = Graph::new().build(1).remove(0).build(Box::new(|| ()));
/// processor.enter(drain);
/// assert_eq!(processor.control().phase(), Phase::Draining);
/// ```
///
/// # Panics
/// If called outside a processor.
#[track_caller]
pub fn drain() {
    crate::processor::current(|processor| processor.control().drain());
}
