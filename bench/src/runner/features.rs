//! Features that servers must have in a scene.

/// Required features; servers without one of them are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Features {
    /// Serve over TLS.
    pub(crate) tls: bool,
    /// Serve HTTP/2 over TLS.
    pub(crate) http2: bool,
    /// Serve HTTP/3.
    pub(crate) http3: bool,
    /// Write an access log to a file.
    pub(crate) log: bool,
    /// Send text compressed in advance; lighttpd compresses it once and keeps the result.
    pub(crate) gzip: bool,
    /// Forward the requests to another server.
    pub(crate) proxy: bool,
}

impl Features {
    /// No features.
    pub(crate) const NONE: Self =
        Self { tls: false, http2: false, http3: false, log: false, gzip: false, proxy: false };
}
