//! Ending the program from inside of it.

/// Asks the program that this runs in to finish, as [`Control::drain`](crate::Control::drain) does from outside.
///
/// For what lives in the program: a stage's state that kept a [`Control`](crate::Control) would keep the program's
/// memory, and so itself, for ever.
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
/// Outside of a processor.
#[track_caller]
pub fn drain() {
    crate::processor::current(|processor| processor.control().drain());
}
