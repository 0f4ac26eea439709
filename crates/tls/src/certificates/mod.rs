//! A server's certificates and their reload. Changed files are reloaded without dropping connections; an
//! invalid new file leaves the previous certificate in use.
//!
//! Files are not watched. If the last check is some seconds ago, a handshake first requests one, on a separate thread.
//! An idle server therefore does not wake up, and the first client after a change gets the new certificate.

pub(crate) mod certificate;
pub(crate) mod clients;
mod names;
pub(crate) mod tickets;
mod watch;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::certificates::certificate::{CertificateError, load, warnings_for};
use crate::certificates::names::Names;
use crate::certificates::tickets::Tickets;
use crate::certificates::watch::{FileWatch, Stamp, stamp};

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
    /// handshakes with the host's names use the default certificate, and fail if there is none.
    pub is_awaited: bool,
}

impl Source {
    fn stamps(&self) -> [Stamp; 2] {
        [stamp(&self.certificate), stamp(&self.key)]
    }

    fn has_files_of(&self, other: &Self) -> bool {
        self.certificate == other.certificate && self.key == other.key
    }
}

#[derive(Debug)]
struct LoadedCertificate {
    source: Source,
    watch: FileWatch,
    /// `None` while an awaited certificate does not exist.
    certificate: Option<Arc<CertifiedKey>>,
}

impl LoadedCertificate {
    /// Records that files with these stamps are unusable. Returns a message about a new error.
    fn failed(&mut self, stamps: [Stamp; 2], error: &CertificateError) -> Option<String> {
        self.watch.failed(stamps, error).then(|| match self.certificate {
            Some(_) => format!("{error}; the previous certificate stays in use"),
            None => error.to_string(),
        })
    }
}

/// The certificates of a server. Handshakes read them; a reload replaces them.
#[derive(Debug)]
pub struct Certificates {
    current: RwLock<Arc<Names>>,
    loaded: Mutex<Vec<LoadedCertificate>>,
    /// Certificates that answer challenges, by name.
    challenges: RwLock<HashMap<String, Arc<CertifiedKey>>>,
    tickets: Arc<Tickets>,
}

/// Loaded certificates that can replace those in use.
#[must_use = "dropped without effect"]
#[derive(Debug)]
pub struct Replacement<'a> {
    certificates: &'a Certificates,
    current: MutexGuard<'a, Vec<LoadedCertificate>>,
    loaded: Vec<LoadedCertificate>,
    messages: Vec<String>,
}

impl Replacement<'_> {
    /// Uses the loaded certificates. Returns warnings, one line each.
    pub fn apply(mut self) -> Vec<String> {
        self.certificates.put(names(&self.loaded));
        *self.current = self.loaded;
        self.messages
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
        let (loaded, messages) = load_all(sources, now, &[])?;
        let current = RwLock::new(Arc::new(names(&loaded)));
        let (challenges, tickets) = (RwLock::default(), Arc::new(Tickets::new()));
        Ok((Self { current, loaded: Mutex::new(loaded), challenges, tickets }, messages))
    }

    /// The keys of session tickets, for all handshakes with these certificates.
    pub fn tickets(&self) -> Arc<Tickets> {
        self.tickets.clone()
    }

    /// Replaces all certificates with those of another configuration; if one of them is unusable, replaces none.
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

    /// Loads the certificates of another configuration, without using them yet. Until they are used or dropped, changed
    /// files are not reloaded. May block.
    ///
    /// # Errors
    /// If one of them is unusable.
    pub fn prepare(
        &self,
        sources: Vec<Source>,
        now: SystemTime,
    ) -> Result<Replacement<'_>, CertificateError> {
        // Locked before the files are read, so that no concurrent check restores the old certificates.
        let current = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let (loaded, messages) = load_all(sources, now, &current)?;
        Ok(Replacement { certificates: self, current, loaded, messages })
    }

    /// Reloads changed files, and those that could not be read. Returns messages, one line each. An error is reported
    /// once, and the previous certificate stays in use. May block.
    pub fn reload_changed(&self, now: SystemTime) -> Vec<String> {
        let mut messages = Vec::new();
        let mut changed = false;
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        for loaded in &mut *loaded {
            let stamps = loaded.source.stamps();
            if !loaded.watch.has_changed(stamps) {
                continue;
            }
            let Source { names, certificate, key, .. } = &loaded.source;
            match load(certificate, key) {
                Ok(new) => {
                    messages
                        .push(format!("the certificate in {} was reloaded", certificate.display()));
                    messages.extend(warnings_for(certificate, &new, names, now));
                    loaded.watch = FileWatch::read(stamps);
                    loaded.certificate = Some(Arc::new(new));
                    changed = true;
                }
                Err(error) => messages.extend(loaded.failed(stamps, &error)),
            }
        }
        if changed {
            self.put(names(&loaded));
        }
        messages
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
        let certified = Arc::new(CertifiedKey::new(chain, key));
        let mut challenges = self.challenges.write().unwrap_or_else(PoisonError::into_inner);
        challenges.insert(name.to_ascii_lowercase(), certified);
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

/// Loads certificates. If an awaited one cannot be loaded, the one of `before` with the same files is used, if any.
fn load_all(
    sources: Vec<Source>,
    now: SystemTime,
    before: &[LoadedCertificate],
) -> Result<(Vec<LoadedCertificate>, Vec<String>), CertificateError> {
    let (mut loaded, mut messages) = (Vec::new(), Vec::new());
    for source in sources {
        // Taken before the files are read, so that the next check notices a change in between.
        let stamps = source.stamps();
        match load(&source.certificate, &source.key) {
            Ok(certificate) => {
                messages.extend(warnings_for(
                    &source.certificate,
                    &certificate,
                    &source.names,
                    now,
                ));
                let (watch, certificate) = (FileWatch::read(stamps), Some(Arc::new(certificate)));
                loaded.push(LoadedCertificate { source, watch, certificate });
            }
            Err(error) if source.is_awaited => {
                let same = before.iter().find(|loaded| loaded.source.has_files_of(&source));
                let certificate = same.and_then(|same| same.certificate.clone());
                let mut new =
                    LoadedCertificate { source, watch: FileWatch::default(), certificate };
                let line = new.failed(stamps, &error);
                // No error, because the authority will issue the certificate. Only a certificate that was never issued
                // may be missing.
                let is_expected = stamps[0].is_none() && new.certificate.is_none();
                messages.extend(line.filter(|_| !is_expected));
                loaded.push(new);
            }
            Err(error) => return Err(error),
        }
    }
    Ok((loaded, messages))
}

fn names(loaded: &[LoadedCertificate]) -> Names {
    let mut names = Names::default();
    for loaded in loaded {
        if let Some(certificate) = &loaded.certificate {
            names.add(&loaded.source.names, certificate);
        }
    }
    names
}

/// Minimum time between two checks of the files.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    /// A certificate and its key in one file, for a host whose authority may not have issued one yet.
    fn awaited(file: &Path, name: &str) -> Source {
        let (certificate, key) = (file.to_owned(), file.to_owned());
        Source { names: vec![name.into()], certificate, key, is_awaited: true }
    }

    fn write(file: &Path, name: &str) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let text = params.self_signed(&key).unwrap().pem() + &key.serialize_pem();
        fs::write(file, text).unwrap();
    }

    #[test]
    fn files_that_cannot_be_read_are_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let (file, aside) = (folder.path().join("a.pem"), folder.path().join("aside"));
        write(&file, "a");
        let now = SystemTime::now();
        let source = Source { is_awaited: false, ..awaited(&file, "a") };
        let (certificates, messages) = Certificates::load(vec![source], now).unwrap();
        assert_eq!((messages, certificates.reload_changed(now)), (Vec::new(), Vec::new()));
        // The path is a folder, which cannot be read.
        write(&aside, "a");
        // Set explicitly, because the file system's clock may not have advanced.
        let renewed = fs::File::options().append(true).open(&aside).unwrap();
        renewed.set_modified(now + 60 * CHECK_INTERVAL).unwrap();
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        let messages = certificates.reload_changed(now);
        assert!(
            messages[0].contains("cannot read") && messages[0].contains("stays in use"),
            "{messages:?}"
        );
        assert_eq!(certificates.reload_changed(now), [""; 0], "an error is reported once");
        fs::remove_dir(&file).unwrap();
        fs::rename(&aside, &file).unwrap();
        assert!(certificates.reload_changed(now)[0].contains("was reloaded"));
    }

    #[test]
    fn an_awaited_certificate_stays_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.pem");
        let now = SystemTime::now();
        let (certificates, messages) = Certificates::load(vec![awaited(&file, "a")], now).unwrap();
        assert_eq!(messages, [""; 0], "the first one may be missing");
        let find = || certificates.current.read().unwrap().find(Some("a"));
        assert!(find().is_none());
        write(&file, "a");
        let messages = certificates.reload_changed(now);
        assert!(messages[0].contains("was reloaded"), "{messages:?}");
        let first = find().unwrap();
        for text in [None, Some("-----BEGIN CERTIFICATE-----"), Some("")] {
            match text {
                Some(text) => fs::write(&file, text).unwrap(),
                None => fs::remove_file(&file).unwrap(),
            }
            let messages = certificates.replace(vec![awaited(&file, "a")], now).unwrap();
            assert!(messages[0].contains("stays in use"), "{messages:?}");
            assert!(Arc::ptr_eq(&find().unwrap(), &first), "{text:?}");
            assert_eq!(certificates.reload_changed(now), [""; 0]);
        }
        write(&file, "a");
        assert!(certificates.reload_changed(now)[0].contains("was reloaded"));
        assert!(!Arc::ptr_eq(&find().unwrap(), &first));
        // Another host, whose certificate is not issued yet.
        let other = folder.path().join("b.pem");
        assert_eq!(certificates.replace(vec![awaited(&other, "b")], now).unwrap(), [""; 0]);
        assert!(certificates.current.read().unwrap().find(Some("b")).is_none());
    }
}
