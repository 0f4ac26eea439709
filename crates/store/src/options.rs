//! What an operator or a test can set.

/// How a store works. [`Options::default`] is for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// A segment that is longer gets a successor. In bytes, 64 MiB by default.
    pub segment_bytes: u64,
    /// What is alive may have so many bytes; then [`Full`](crate::AppendError::Full). 8 GiB by default. The
    /// journal has up to two and a quarter times that, four segments and a batch, and a segment more lies on the
    /// disk until it may go.
    pub most_bytes: u64,
    /// What waits for the disk may have so many bytes; then [`Busy`](crate::AppendError::Busy). 64 MiB by
    /// default; a single entry may be longer.
    pub most_waiting: usize,
    /// What the journal's numbers are mixed with; drawn by chance if none is given. For simulation, in
    /// which all chance is to come from a seed. Of no meaning for a store that is there already.
    pub salt: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self { segment_bytes: 64 << 20, most_bytes: 8 << 30, most_waiting: 64 << 20, salt: None }
    }
}
