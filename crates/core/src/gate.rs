//! Gates of stages, and the names of operations that keep them closed.

/// A condition for running a cohort of a stage, such as a lock taken once per cohort.
///
/// A processor that may not enter continues with its next stage and tries again in its next turn. It does not sleep
/// while operations wait at the gate. A panic in any method ends the processor.
pub trait Gate {
    /// Enters the gate. Returns `true` if the cohort may run now; [`leave`](Self::leave) is then called after the
    /// cohort.
    fn enter(&self) -> bool;
    /// Leaves the gate at the end of the cohort.
    fn leave(&self);
    /// The operation that keeps the gate closed. `None` if the gate is open or no single operation keeps it closed.
    ///
    /// Called only by the search for [cycles of waiting operations](crate::WaitCycle), which finds only cycles through
    /// gates that name their holder.
    fn holder(&self) -> Option<OperationName> {
        None
    }
}

/// The name of an operation, unique in the process. Created by [`OperationName::current`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OperationName {
    /// The identity of its processor.
    pub(crate) processor: u32,
    /// Its slot there.
    pub(crate) index: u32,
    /// The serial of that slot's use.
    pub(crate) serial: u64,
}
