//! Loading a certificate with its key from PEM files. Both are validated, so that errors are reported at startup with
//! the name of the file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Version;

/// Remaining validity below which a warning is issued.
const EXPIRY_WARNING: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A certificate is unusable. The message names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A file is not PEM, or contains an invalid section.
    #[error("{} is not PEM: {reason}", path.display())]
    NotPem {
        /// Path of the file.
        path: PathBuf,
        /// Description of the error.
        reason: String,
    },
    /// A file contains no certificate.
    #[error(
        "{} has no certificate; expected PEM with `-----BEGIN CERTIFICATE-----`, starting with the server's certificate",
        path.display()
    )]
    NoCertificate {
        /// Path of the file.
        path: PathBuf,
    },
    /// A file contains no unencrypted private key.
    #[error(
        "{} has no private key; expected PEM with `-----BEGIN PRIVATE KEY-----`, unencrypted",
        path.display()
    )]
    NoKey {
        /// Path of the file.
        path: PathBuf,
    },
    /// The key does not belong to the certificate.
    #[error("the key in {} does not belong to the certificate in {}", key.display(), certificate.display())]
    Mismatch {
        /// Path of the certificate.
        certificate: PathBuf,
        /// Path of the key.
        key: PathBuf,
    },
    /// Certificates of authorities are unusable.
    #[error("cannot use the authorities in {}: {reason}", path.display())]
    Authority {
        /// Path of the file.
        path: PathBuf,
        /// Description of the error.
        reason: String,
    },
    /// Revocation lists are unusable.
    #[error("cannot use the revocation lists in {}: {reason}", path.display())]
    Revoked {
        /// Path of the file.
        path: PathBuf,
        /// Description of the error.
        reason: String,
    },
    /// A file is no secret for session tickets.
    #[error(
        "cannot use {} as the secret of session tickets; expected 32 to 4096 bytes, as `openssl rand -out FILE 48` writes",
        path.display()
    )]
    TicketSecret {
        /// Path of the file.
        path: PathBuf,
    },
    /// The system has no authorities.
    #[error(
        "this system has no CA certificates; set a file with them, or install the package ca-certificates"
    )]
    NoSystemAuthorities,
    /// The certificate or its key has an unsupported type, or is invalid.
    #[error("cannot use {} with {}: {reason}", certificate.display(), key.display())]
    Unusable {
        /// Path of the certificate.
        certificate: PathBuf,
        /// Path of the key.
        key: PathBuf,
        /// Description of the error.
        reason: String,
    },
}

/// Loads the chain in `certificate` and the key in `key`, which may be the same file, and checks that they
/// match.
pub(crate) fn load(certificate: &Path, key: &Path) -> Result<CertifiedKey, CertificateError> {
    let chain = chain(certificate)?;
    let private = private_key(key)?;
    let old = chain.iter().take(1).any(|first| is_old(first));
    CertifiedKey::from_der(chain, private, &ring::default_provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            CertificateError::Mismatch { certificate: certificate.into(), key: key.into() }
        }
        error => CertificateError::Unusable {
            certificate: certificate.into(),
            key: key.into(),
            reason: if old { OLD_VERSION.to_owned() } else { error.to_string() },
        },
    })
}

/// Created by `openssl x509 -req` by default, and rejected by current clients.
const OLD_VERSION: &str = "the certificate has X.509 version 1 or 2; expected version 3, which `openssl x509 -req` creates \
    with -extfile FILE and a line `subjectAltName=DNS:…`";

/// Whether a certificate has a version before 3 (RFC 5280 §4.1.2.1), which cannot contain host names.
fn is_old(certificate: &CertificateDer<'_>) -> bool {
    let parsed = X509Certificate::from_der(certificate);
    parsed.is_ok_and(|(_, parsed)| parsed.version() != X509Version::V3)
}

/// Checks whether the chain in `certificate` and the key in `key` are usable. May block.
///
/// # Errors
/// If they are not.
pub fn check(certificate: &Path, key: &Path) -> Result<(), CertificateError> {
    load(certificate, key).map(drop)
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    fs::read(path).map_err(|source| CertificateError::Read { path: path.into(), source })
}

pub(crate) fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let text = read(path)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.map_err(|reason| not_pem(path, &reason))?;
    if chain.is_empty() {
        return Err(CertificateError::NoCertificate { path: path.into() });
    }
    Ok(chain)
}

pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, CertificateError> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|reason| match reason {
        pem::Error::NoItemsFound => CertificateError::NoKey { path: path.into() },
        reason => not_pem(path, &reason),
    })
}

fn not_pem(path: &Path, reason: &pem::Error) -> CertificateError {
    CertificateError::NotPem { path: path.into(), reason: reason.to_string() }
}

/// Warnings about a usable certificate, one line each: about its validity period, and `names` of the host
/// that it does not cover. None for an unusable certificate. May block.
pub fn warnings(certificate: &Path, key: &Path, names: &[String], now: SystemTime) -> Vec<String> {
    let loaded = load(certificate, key);
    loaded.map_or_else(|_| Vec::new(), |loaded| warnings_for(certificate, &loaded, names, now))
}

/// The validity of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Its first second.
    pub from: SystemTime,
    /// Its last second.
    pub until: SystemTime,
    /// Whether the certificate covers all requested names.
    pub is_for_all: bool,
}

/// The validity of the certificate in `certificate`, and whether it covers all `names`. `None` if the files do not
/// contain a usable certificate and its key. May block.
pub fn validity(certificate: &Path, key: &Path, names: &[String]) -> Option<Validity> {
    let loaded = load(certificate, key).ok()?;
    let (_, parsed) = X509Certificate::from_der(loaded.cert.first()?).ok()?;
    let time = |seconds: i64| {
        SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
    };
    Some(Validity {
        from: time(parsed.validity().not_before.timestamp()),
        until: time(parsed.validity().not_after.timestamp()),
        is_for_all: names.iter().all(|name| is_for(&parsed, name)),
    })
}

/// Like [`warnings`], for a loaded certificate.
pub(crate) fn warnings_for(
    path: &Path,
    certificate: &CertifiedKey,
    names: &[String],
    now: SystemTime,
) -> Vec<String> {
    let path = path.display();
    let Some(first) = certificate.cert.first() else { return Vec::new() };
    let Ok((_, parsed)) = X509Certificate::from_der(first) else {
        return vec![format!(
            "the certificate in {path} cannot be parsed; its validity was not checked"
        )];
    };
    let mut warnings = Vec::new();
    let now = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    let (from, until) = (parsed.validity().not_before, parsed.validity().not_after);
    if now < from.timestamp() {
        warnings.push(format!("the certificate in {path} is not valid before {from}"));
    }
    if now > until.timestamp() {
        warnings.push(format!("the certificate in {path} expired on {until}"));
    } else if now + EXPIRY_WARNING.as_secs() as i64 > until.timestamp() {
        warnings.push(format!("the certificate in {path} expires on {until}"));
    }
    let missing = names.iter().filter(|name| !is_for(&parsed, name));
    warnings.extend(missing.map(|name| format!("the certificate in {path} does not cover {name}")));
    warnings
}

/// Whether a client accepts the certificate for `name`, or for any name that matches a pattern `*.rest` (RFC
/// 9525 §6.3).
fn is_for(certificate: &X509Certificate<'_>, name: &str) -> bool {
    let Ok(Some(alternatives)) = certificate.subject_alternative_name() else { return false };
    alternatives.value.general_names.iter().any(|one| match one {
        GeneralName::DNSName(own) if own.eq_ignore_ascii_case(name) => true,
        GeneralName::DNSName(own) => match (own.strip_prefix("*."), name.split_once('.')) {
            (Some(own), Some((first, rest))) => first != "*" && own.eq_ignore_ascii_case(rest),
            _ => false,
        },
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Created with `openssl req -new` and `openssl x509 -req`, without -extfile.
    const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBFDCBuwIUB5ioxNOL3R/s5dZZ6SmzoWwEKkgwCgYIKoZIzj0EAwIwDDEKMAgG
A1UEAwwBYTAgFw0yNjExMjMwNzQ5MTBaGA8yMTI2MTAzMDA3NDkxMFowDDEKMAgG
A1UEAwwBYTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABPO2keafz3sNV2i5aayX
HRC/4SkcEM0uGjsrso7hL+vALiINBvYui73VnvlhSBxbc1gBObyYk+l37WJHOTAO
M9MwCgYIKoZIzj0EAwIDSAAwRQIgFuHZOG+ZhdO9dD6q+pq7oXYLnSkInWIozXH8
QR5S1lECIQDXK69Bla96JkA5126BRIUpfDD1jEIG70ISFgwpsJtFRQ==
-----END CERTIFICATE-----
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg/JIvbECGZT5Nrkco
NnwZ0OQfutXdwlc4LHQFic5GFV+hRANCAATztpHmn897DVdouWmslx0Qv+EpHBDN
Lho7K7KO4S/rwC4iDQb2Lou91Z75YUgcW3NYATm8mJPpd+1iRzkwDjPT
-----END PRIVATE KEY-----
";

    #[test]
    fn version_1_certificates_are_reported() {
        let place = tempfile::tempdir().unwrap();
        let both = place.path().join("both.pem");
        fs::write(&both, VERSION_1).unwrap();
        let error = check(&both, &both).unwrap_err().to_string();
        let is_complete =
            ["both.pem", "version 1", "-extfile"].iter().all(|part| error.contains(part));
        assert!(is_complete && error.lines().count() == 1, "{error}");
    }
}
