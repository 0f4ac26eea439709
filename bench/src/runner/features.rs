//! Features that servers must have in a scene, and their self-signed certificate, generated per run.

use std::path::{Path, PathBuf};
use std::{fs, io};

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

/// Paths of the certificate and its key in PEM. The key is on the curve P-256, like most keys of automated
/// issuers.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificate {
    /// Generates a certificate for the loopback in `directory`.
    pub(crate) fn make(directory: &Path) -> io::Result<Self> {
        let names = ["127.0.0.1", "localhost"].map(str::to_owned);
        let made = rcgen::generate_simple_self_signed(names).map_err(io::Error::other)?;
        let this = Self { chain: directory.join("chain.pem"), key: directory.join("key.pem") };
        fs::write(&this.chain, made.cert.pem())?;
        fs::write(&this.key, made.signing_key.serialize_pem())?;
        Ok(this)
    }
}
