//! All certificates of a server, and their reload: files that have changed are read again without a
//! connection being dropped, and a broken new one leaves the old one in its place.
//!
//! Files are not watched. A handshake that comes when they were not looked at for a while asks for a
//! look first, on a thread of its own: a server that nobody talks to does not wake for it, and the
//! first client after a change gets the new certificate.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::certificate::{CertificateError, load, warnings_for};
use crate::names::Names;

/// Whose certificate lies where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The host's names; none for the default host.
    pub names: Vec<String>,
    /// PEM: the chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// PEM: its private key.
    pub key: PathBuf,
}

/// What of a file shows that it has changed: when it was written, and how long it is.
pub(crate) type Stamp = Option<(SystemTime, u64)>;

#[derive(Debug)]
struct Held {
    source: Source,
    stamps: [Stamp; 2],
    certificate: Arc<CertifiedKey>,
}

/// The certificates of a server. Handshakes read; a reload writes.
#[derive(Debug)]
pub struct Certificates {
    current: RwLock<Arc<Names>>,
    held: Mutex<Vec<Held>>,
}

impl Certificates {
    /// Loads all of them. Also gives what there is to say about them, one line each. May block.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub fn load(
        sources: Vec<Source>,
        now: SystemTime,
    ) -> Result<(Self, Vec<String>), CertificateError> {
        let (held, told) = hold(sources, now)?;
        let current = RwLock::new(Arc::new(names(&held)));
        Ok((Self { current, held: Mutex::new(held) }, told))
    }

    /// Puts the certificates of another configuration in the place of these, all or, when one of them
    /// cannot be had, none. May block.
    ///
    /// # Errors
    /// When one of them cannot be used.
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

    /// Reads again what has changed. Gives what there is to say about it, one line each: what cannot
    /// be used is told once and what was there before stays.
    pub(crate) fn look(&self, now: SystemTime) -> Vec<String> {
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
                Err(error) => told.push(format!("{error}; the certificate from before stays")),
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
        // Before it is read, so that a change in between is seen at the next look.
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

/// Files are looked at again when they were not for so long.
pub(crate) const LOOK: Duration = Duration::from_secs(2);
