//! A server's certificates and their reload. Changed files are reloaded without dropping connections; an
//! invalid new file leaves the previous certificate in use.
//!
//! Files are not watched. A handshake after a period without a check first requests one, on a thread of its
//! own. An idle server therefore does not wake up, and the first client after a change gets the new
//! certificate.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::certificate::{CertificateError, load, warnings_for};
use crate::names::Names;

/// Files of a host's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Names of the host; empty for the default host.
    pub names: Vec<String>,
    /// PEM file of the chain, starting with the server's certificate.
    pub certificate: PathBuf,
    /// PEM file of the private key.
    pub key: PathBuf,
}

/// Modification time and length of a file, which show whether it has changed.
pub(crate) type Stamp = Option<(SystemTime, u64)>;

#[derive(Debug)]
struct Held {
    source: Source,
    stamps: [Stamp; 2],
    certificate: Arc<CertifiedKey>,
}

/// The certificates of a server. Handshakes read them; a reload replaces them.
#[derive(Debug)]
pub struct Certificates {
    current: RwLock<Arc<Names>>,
    held: Mutex<Vec<Held>>,
}

impl Certificates {
    /// Loads all certificates. Also returns warnings, one line each. May block.
    ///
    /// # Errors
    /// If one of them is unusable.
    pub fn load(
        sources: Vec<Source>,
        now: SystemTime,
    ) -> Result<(Self, Vec<String>), CertificateError> {
        let (held, told) = hold(sources, now)?;
        let current = RwLock::new(Arc::new(names(&held)));
        Ok((Self { current, held: Mutex::new(held) }, told))
    }

    /// Replaces all certificates with those of another configuration, or none if one of them is unusable.
    /// Returns warnings, one line each. May block.
    ///
    /// # Errors
    /// If one of them is unusable.
    pub fn replace(
        &self,
        sources: Vec<Source>,
        now: SystemTime,
    ) -> Result<Vec<String>, CertificateError> {
        let (held, told) = hold(sources, now)?;
        self.put(names(&held));
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = held;
        Ok(told)
    }

    /// Reloads changed files. Returns messages, one line each. An unusable file is reported once, and the
    /// previous certificate stays in use.
    pub(crate) fn reload_changed(&self, now: SystemTime) -> Vec<String> {
        let mut told = Vec::new();
        let mut changed = false;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        for held in &mut *held {
            let Source { names, certificate, key } = &held.source;
            let stamps = [stamp(certificate), stamp(key)];
            if stamps == held.stamps {
                continue;
            }
            held.stamps = stamps;
            match load(certificate, key) {
                Ok(new) => {
                    told.push(format!("the certificate in {} was reloaded", certificate.display()));
                    told.extend(warnings_for(certificate, &new, names, now));
                    held.certificate = Arc::new(new);
                    changed = true;
                }
                Err(error) => told.push(format!("{error}; the previous certificate stays in use")),
            }
        }
        if changed {
            self.put(names(&held));
        }
        told
    }

    fn put(&self, names: Names) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(names);
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let names = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        names.find(hello.server_name())
    }
}

fn hold(
    sources: Vec<Source>,
    now: SystemTime,
) -> Result<(Vec<Held>, Vec<String>), CertificateError> {
    let (mut held, mut told) = (Vec::new(), Vec::new());
    for source in sources {
        // Before reading the file, so that the next check notices a change in between.
        let stamps = [stamp(&source.certificate), stamp(&source.key)];
        let certificate = load(&source.certificate, &source.key)?;
        told.extend(warnings_for(&source.certificate, &certificate, &source.names, now));
        held.push(Held { source, stamps, certificate: Arc::new(certificate) });
    }
    Ok((held, told))
}

fn names(held: &[Held]) -> Names {
    let mut names = Names::default();
    for held in held {
        names.add(&held.source.names, &held.certificate);
    }
    names
}

pub(crate) fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Minimum time between two checks of the files.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(2);
