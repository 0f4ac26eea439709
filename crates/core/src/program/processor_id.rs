//! The identity of a processor, for handles.

/// The identity of a processor. No two processors of a process ever have the same.
///
/// For handles that other crates make of what one processor has, such as its sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessorId(pub(crate) u32);
