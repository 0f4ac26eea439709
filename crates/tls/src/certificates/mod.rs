//! A server's certificates and their reload. Changed files are reloaded without dropping connections; an
//! invalid new file leaves the previous certificate in use.
//!
//! Files are not watched. A handshake after a period without a check first requests one, on a thread of its
//! own. An idle server therefore does not wake up, and the first client after a change gets the new
//! certificate.

pub(crate) mod certificate;
pub(crate) mod clients;
mod names;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::certificates::certificate::{CertificateError, load, warnings_for};
use crate::certificates::names::Names;

/// ALPN identifier of the connections with which an authority checks TLS-ALPN-01 challenges (RFC 8737 §4). The server
/// closes them after the handshake.
pub const ACME_TLS: &[u8] = b"acme-tls/1";

/// Files of a host's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Names of the host; empty for the default host.
    pub names: Vec<String>,
    /// PEM file of the chain, starting with the server's certificate.
    pub certificate: PathBuf,
    /// PEM file of the private key; may be the same file.
    pub key: PathBuf,
    /// Whether the files may be missing, because an authority has not issued the certificate yet. Until they exist,
    /// handshakes with the host's names fail.
    pub is_awaited: bool,
}

/// Modification time and length of a file, which show whether it has changed.
pub(crate) type Stamp = Option<(SystemTime, u64)>;

#[derive(Debug)]
struct Held {
    source: Source,
    stamps: [Stamp; 2],
    /// `None` until an awaited one exists.
    certificate: Option<Arc<CertifiedKey>>,
}

/// The certificates of a server. Handshakes read them; a reload replaces them.
#[derive(Debug)]
pub struct Certificates {
    current: RwLock<Arc<Names>>,
    held: Mutex<Vec<Held>>,
    /// Certificates that answer challenges, by name.
    challenges: RwLock<HashMap<String, Arc<CertifiedKey>>>,
}

/// Loaded certificates that can replace those in use.
#[must_use = "dropped without effect"]
#[derive(Debug)]
pub struct Replacement<'a> {
    certificates: &'a Certificates,
    current: MutexGuard<'a, Vec<Held>>,
    held: Vec<Held>,
    told: Vec<String>,
}

impl Replacement<'_> {
    /// Uses the loaded certificates. Returns warnings, one line each.
    pub fn apply(mut self) -> Vec<String> {
        self.certificates.put(names(&self.held));
        *self.current = self.held;
        self.told
    }
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
        Ok((Self { current, held: Mutex::new(held), challenges: RwLock::default() }, told))
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
        self.prepare(sources, now).map(Replacement::apply)
    }

    /// Loads the certificates of another configuration, without using them yet. Changed files are not reloaded meanwhile.
    /// May block.
    ///
    /// # Errors
    /// If one of them is unusable.
    pub fn prepare(
        &self,
        sources: Vec<Source>,
        now: SystemTime,
    ) -> Result<Replacement<'_>, CertificateError> {
        // Before the files are read, so that no concurrent check restores the old ones.
        let current = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let (held, told) = hold(sources, now)?;
        Ok(Replacement { certificates: self, current, held, told })
    }

    /// Reloads changed files. Returns messages, one line each. An unusable file is reported once, and the
    /// previous certificate stays in use. May block.
    pub fn reload_changed(&self, now: SystemTime) -> Vec<String> {
        let mut told = Vec::new();
        let mut changed = false;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        for held in &mut *held {
            let Source { names, certificate, key, .. } = &held.source;
            let stamps = [stamp(certificate), stamp(key)];
            if stamps == held.stamps {
                continue;
            }
            held.stamps = stamps;
            match load(certificate, key) {
                Ok(new) => {
                    told.push(format!("the certificate in {} was reloaded", certificate.display()));
                    told.extend(warnings_for(certificate, &new, names, now));
                    held.certificate = Some(Arc::new(new));
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

    /// Answers TLS-ALPN-01 challenges (RFC 8737) for `name` with a certificate and its PKCS #8 key, both in DER, until
    /// [`end_challenge`](Self::end_challenge).
    ///
    /// # Errors
    /// If they are unusable.
    pub fn begin_challenge(
        &self,
        name: &str,
        certificate: Vec<u8>,
        key: Vec<u8>,
    ) -> Result<(), String> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
        let chain = vec![CertificateDer::from(certificate)];
        // Not `from_der`, which rejects the critical extension of such certificates.
        let key = ring::sign::any_supported_type(&key).map_err(|error| error.to_string())?;
        let made = Arc::new(CertifiedKey::new(chain, key));
        let mut challenges = self.challenges.write().unwrap_or_else(PoisonError::into_inner);
        challenges.insert(name.to_ascii_lowercase(), made);
        Ok(())
    }

    /// Stops answering challenges for `name`.
    pub fn end_challenge(&self, name: &str) {
        let mut challenges = self.challenges.write().unwrap_or_else(PoisonError::into_inner);
        challenges.remove(&name.to_ascii_lowercase());
    }

    fn put(&self, names: Names) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(names);
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if hello.alpn().is_some_and(|protocols| protocols.eq([ACME_TLS])) {
            let challenges = self.challenges.read().unwrap_or_else(PoisonError::into_inner);
            return challenges.get(&hello.server_name()?.to_ascii_lowercase()).cloned();
        }
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
        let certificate = match load(&source.certificate, &source.key) {
            Ok(certificate) => {
                told.extend(warnings_for(&source.certificate, &certificate, &source.names, now));
                Some(Arc::new(certificate))
            }
            Err(_) if source.is_awaited && stamps[0].is_none() => None,
            // The authority issues another one.
            Err(error) if source.is_awaited => {
                told.push(error.to_string());
                None
            }
            Err(error) => return Err(error),
        };
        held.push(Held { source, stamps, certificate });
    }
    Ok((held, told))
}

fn names(held: &[Held]) -> Names {
    let mut names = Names::default();
    for held in held {
        if let Some(certificate) = &held.certificate {
            names.add(&held.source.names, certificate);
        }
    }
    names
}

pub(crate) fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Minimum time between two checks of the files.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(2);
