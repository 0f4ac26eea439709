//! Cycles of waiting operations, as reported to users.

use std::fmt;
use std::panic::Location;

use crate::brief::Brief;

/// Operations that wait for each other in a cycle. None of them can continue, unless it also waits for something that
/// the scheduler does not know about, such as I/O.
///
/// ```
/// use phalanx_core::{Call, Graph, Waits, oneshot};
///
/// let mut graph = Graph::new();
/// let (left, right) = (graph.shared("left", ()), graph.shared("right", ()));
/// let processor = graph.build(1).remove(0).build(Box::new(|| ()));
/// processor.enter(|| {
///     // Each of two operations awaits the call of the other.
///     let (to_right, from_left) = oneshot::local::<Call<()>>();
///     let (to_left, from_right) = oneshot::local::<Call<()>>();
///     let call = left.call(|_| async { from_right.await.unwrap().await.unwrap() });
///     to_right.send(call);
///     to_left.send(right.call(|_| async { from_left.await.unwrap().await.unwrap() }));
/// });
/// while processor.turn(&phalanx_core::IdleWorld).ran > 0 {}
///
/// let cycles = Waits::cycles(&[processor.waits()]);
/// let stages: Vec<_> = cycles[0].operations.iter().map(|operation| operation.stage).collect();
/// assert_eq!(stages, ["left", "right"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitCycle {
    /// The operations. Each waits for the next, and the last one waits for the first.
    pub operations: Vec<WaitingOperation>,
}

/// One operation of a [`WaitCycle`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingOperation {
    /// The index of its processor.
    pub processor: usize,
    /// The name of its stage.
    pub stage: &'static str,
    /// Its type, as in [`Running::operation`](crate::Running::operation).
    pub operation: &'static str,
    /// Where it was invoked.
    pub site: &'static Location<'static>,
    /// Why it waits for the next operation.
    pub reason: WaitReason,
}

/// The reason why an operation waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitReason {
    /// It awaits the result of the other operation.
    Call,
    /// It waits for capacity of this stage, and the other operation holds the stage's gate or handles its cohort.
    Capacity(&'static str),
    /// It is queued at this stage, and the other operation holds the stage's gate or handles its cohort.
    Gate(&'static str),
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call => write!(f, "awaits the result of"),
            Self::Capacity(stage) => {
                write!(f, "waits for capacity of stage \"{stage}\", whose queue is held up by")
            }
            Self::Gate(stage) => {
                write!(f, "is queued at stage \"{stage}\", whose queue is held up by")
            }
        }
    }
}

/// `processor 0, stage "work": program::first (src/main.rs:12:9)`
impl fmt::Display for WaitingOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processor, stage, operation, site, .. } = self;
        let operation = Brief(operation);
        write!(f, "processor {processor}, stage \"{stage}\": {operation} ({site})")
    }
}

/// One line per operation, with the reason for its wait.
impl fmt::Display for WaitCycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.operations.first() else { return Ok(()) };
        match self.operations.len() {
            1 => writeln!(f, "an operation waits for itself:")?,
            count => writeln!(f, "{count} operations wait for each other in a cycle:")?,
        }
        for waits in &self.operations {
            writeln!(f, "  {waits}\n    {}", waits.reason)?;
        }
        write!(f, "  {first}")
    }
}
