//! A self-signed certificate for the servers under measurement, generated per run.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

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
