//! What servers are to do beside serving files.

/// Who cannot do all of it takes no part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demands {
    /// Speak TLS.
    pub(crate) tls: bool,
    /// Speak HTTP/2 over it.
    pub(crate) http2: bool,
    /// Write a line for each request to a file.
    pub(crate) log: bool,
}

impl Demands {
    /// Nothing.
    pub(crate) const NONE: Self = Self { tls: false, http2: false, log: false };
}
