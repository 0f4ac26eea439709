//! The memory of an operation of one type.

/// The sizes of a type of operation, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperationSizes {
    pub(crate) invocation: u32,
    pub(crate) future: u32,
    pub(crate) result: u32,
    /// All bytes of a slot behind its header.
    pub(crate) payload: u32,
}

impl OperationSizes {
    pub(crate) const NONE: Self = Self { invocation: 0, future: 0, result: 0, payload: 0 };

    /// The sizes of the invocation, the future and the result, which occupy a slot one after the other.
    pub(crate) const fn of<F, Fut, T>(payload: usize) -> Self {
        Self {
            invocation: size_of::<F>() as u32,
            future: size_of::<Fut>() as u32,
            result: size_of::<T>() as u32,
            payload: payload as u32,
        }
    }
}
