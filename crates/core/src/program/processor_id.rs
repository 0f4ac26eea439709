//! The identity of a processor, for handles.

/// The identity of a processor, unique in the process and never reused.
///
/// Handles of other crates store it to identify the processor of a resource, such as a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessorId(pub(crate) u32);
