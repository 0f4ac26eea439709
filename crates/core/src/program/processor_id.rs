//! The identity of a processor, for handles.

/// The identity of a processor, unique in the process and never reused.
///
/// For handles of other crates on a processor's resources, such as its sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessorId(pub(crate) u32);
