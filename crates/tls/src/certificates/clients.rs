//! Client certificates: trusted authorities, revoked certificates, and the client's name.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CommonState, RootCertStore};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use crate::certificates::certificate::{CertificateError, chain, read};
use crate::certificates::watch::{FileWatch, Stamp, stamp};

/// Authorities that must have signed the clients' certificates; clients without one are rejected. Clones
/// share the authorities, whose files are reloaded when they change.
#[derive(Clone, Debug)]
pub struct Clients(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Number of changes of `loaded`. Readers compare it to avoid locking.
    number: AtomicU32,
    loaded: Mutex<LoadedAuthorities>,
}

/// The files of authorities, and of their revocation lists.
#[derive(Clone, Debug)]
struct Files {
    authorities: PathBuf,
    revoked: Option<PathBuf>,
}

#[derive(Clone, Debug)]
struct LoadedAuthorities {
    files: Files,
    watch: FileWatch,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Clients {
    /// Trusts certificates signed by an authority in a PEM file, directly or through intermediate certificates.
    /// `revoked` is a PEM file with the current revocation list of each issuer, including those of intermediate
    /// certificates; a certificate is rejected if a list contains it, or if its issuer has no list. May block.
    ///
    /// # Errors
    /// If a file cannot be read, or contains no usable authority or list.
    pub fn of_authorities(path: &Path, revoked: Option<&Path>) -> Result<Self, CertificateError> {
        let files = Files { authorities: path.into(), revoked: revoked.map(Into::into) };
        let loaded = Mutex::new(files.load()?);
        Ok(Self(Arc::new(Shared { number: AtomicU32::new(0), loaded })))
    }

    /// Replaces the authorities with those of `other`, starting with the next handshake. Existing connections
    /// stay open.
    pub fn follow(&self, other: &Self) {
        let new = other.loaded().clone();
        self.replace(&mut self.loaded(), new);
    }

    /// Reloads the files if one has changed or could not be read, and then returns a message. An error is reported once,
    /// and the previous authorities stay trusted.
    pub(crate) fn reload_changed(&self) -> Option<String> {
        let mut loaded = self.loaded();
        let stamps = loaded.files.stamps();
        if !loaded.watch.has_changed(stamps) {
            return None;
        }
        match loaded.files.load() {
            Ok(new) => {
                let message = format!("the authorities in {} were reloaded", new.files);
                self.replace(&mut loaded, new);
                Some(message)
            }
            Err(error) => {
                let is_new = loaded.watch.failed(stamps, &error);
                is_new.then(|| format!("{error}; the previous authorities stay in use"))
            }
        }
    }

    fn replace(&self, loaded: &mut LoadedAuthorities, new: LoadedAuthorities) {
        *loaded = new;
        self.0.number.fetch_add(1, Ordering::Relaxed);
    }

    fn loaded(&self) -> MutexGuard<'_, LoadedAuthorities> {
        self.0.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of the latest change. A reader that sees a new number gets that change or a later one from
    /// [`verifier`](Self::verifier).
    pub(crate) fn number(&self) -> u32 {
        self.0.number.load(Ordering::Relaxed)
    }

    /// The current verifier, and the number of its change.
    pub(crate) fn verifier(&self) -> (u32, Arc<dyn ClientCertVerifier>) {
        // Read both under the lock, so that they are consistent.
        let loaded = self.loaded();
        (self.number(), loaded.verifier.clone())
    }
}

impl Files {
    fn stamps(&self) -> [Stamp; 2] {
        [stamp(&self.authorities), self.revoked.as_deref().and_then(stamp)]
    }

    fn load(&self) -> Result<LoadedAuthorities, CertificateError> {
        // The stamps are taken before the files are read, so that the next check detects a change in between.
        let watch = FileWatch::read(self.stamps());
        let provider = Arc::new(ring::default_provider());
        let roots = authorities(&self.authorities)?.into();
        let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider);
        let mut last = &self.authorities;
        if let Some(revoked) = &self.revoked {
            // An expired list is rejected, because it lacks later revocations.
            builder = builder.with_crls(lists(revoked)?).enforce_revocation_expiration();
            last = revoked;
        }
        let verifier = builder.build().map_err(|error| unusable(last, &error))?;
        Ok(LoadedAuthorities { files: self.clone(), watch, verifier })
    }
}

impl fmt::Display for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.authorities.display())?;
        match &self.revoked {
            Some(revoked) => write!(f, " and the revocation lists in {}", revoked.display()),
            None => Ok(()),
        }
    }
}

/// The revocation lists in a PEM file.
fn lists(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, CertificateError> {
    let unusable = |reason: String| CertificateError::Revoked { path: path.into(), reason };
    let text = read(path)?;
    let lists = CertificateRevocationListDer::pem_slice_iter(&text);
    let lists = lists.collect::<Result<Vec<_>, _>>();
    let lists = lists.map_err(|error| unusable(error.to_string()))?;
    match lists.is_empty() {
        true => Err(unusable("it contains no revocation list in PEM form".into())),
        false => Ok(lists),
    }
}

/// The authorities in a PEM file.
pub(crate) fn authorities(path: &Path) -> Result<RootCertStore, CertificateError> {
    let mut roots = RootCertStore::empty();
    for authority in chain(path)? {
        roots.add(authority).map_err(|error| unusable(path, &error))?;
    }
    Ok(roots)
}

fn unusable(path: &Path, error: &dyn std::error::Error) -> CertificateError {
    CertificateError::Authority { path: path.into(), reason: error.to_string() }
}

/// The common name in the client's certificate.
pub(crate) fn name(session: &CommonState) -> Option<String> {
    name_in(session.peer_certificates()?.first()?)
}

fn name_in(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let mut names = parsed.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?;
    // Several common names are ambiguous.
    let is_valid = !name.is_empty() && names.next().is_none();
    is_valid.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    #[test]
    fn common_names_of_certificates() {
        for (names, named) in [(&["eve"][..], Some("eve")), (&[], None), (&[""], None)] {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(DnType::OrganizationName, "garden");
            names.iter().for_each(|name| params.distinguished_name.push(DnType::CommonName, *name));
            let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            assert_eq!(name_in(certificate.der()).as_deref(), named);
        }
    }

    #[test]
    fn files_without_authorities_are_rejected() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("ca.pem");
        for (text, expected) in [
            ("", "no certificate"),
            ("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n", "cannot use"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Clients::of_authorities(&path, None).unwrap_err().to_string();
            assert!(error.contains("ca.pem") && error.contains(expected), "{error}");
        }
    }

    #[test]
    fn files_without_lists_are_rejected() {
        let home = tempfile::tempdir().unwrap();
        let (path, list) = (home.path().join("ca.pem"), home.path().join("crl.pem"));
        std::fs::write(&path, authority()).unwrap();
        let error = || Clients::of_authorities(&path, Some(&list)).unwrap_err().to_string();
        assert!(error().contains("crl.pem"));
        for text in ["", "-----BEGIN X509 CRL-----\nAA==\n-----END X509 CRL-----\n"] {
            std::fs::write(&list, text).unwrap();
            assert!(error().contains("crl.pem"), "{}", error());
        }
    }

    /// The PEM text of an authority's certificate.
    fn authority() -> String {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
    }

    #[test]
    fn authorities_are_reloaded_and_replaced() {
        let home = tempfile::tempdir().unwrap();
        let (path, other) = (home.path().join("ca.pem"), home.path().join("other.pem"));
        std::fs::write(&path, authority()).unwrap();
        let clients = Clients::of_authorities(&path, None).unwrap();
        let (first, verifier) = clients.verifier();
        assert_eq!((clients.reload_changed(), clients.number()), (None, first));
        // An invalid file is reported once, and changes nothing.
        std::fs::write(&path, "").unwrap();
        let message = clients.reload_changed().unwrap();
        assert!(message.contains("no certificate") && message.contains("stay"), "{message}");
        assert_eq!((clients.reload_changed(), clients.number()), (None, first));
        // A file that cannot be read is reported once, and tried again.
        std::fs::remove_file(&path).unwrap();
        assert!(clients.reload_changed().unwrap().contains("cannot read"));
        assert_eq!(clients.reload_changed(), None);
        std::fs::write(&path, "").unwrap();
        assert!(clients.reload_changed().unwrap().contains("no certificate"));
        // Two certificates, to change the length of the file.
        std::fs::write(&path, authority() + &authority()).unwrap();
        assert!(clients.reload_changed().unwrap().contains("were reloaded"));
        let (second, renewed) = clients.verifier();
        assert!(second != first && !Arc::ptr_eq(&verifier, &renewed));
        // Replaced by another file; clones see the change.
        std::fs::write(&other, authority()).unwrap();
        let clone = clients.clone();
        clients.follow(&Clients::of_authorities(&other, None).unwrap());
        assert!(clone.number() != second);
        std::fs::write(&path, "").unwrap();
        assert_eq!(clone.reload_changed(), None, "the first file is no longer checked");
    }
}
