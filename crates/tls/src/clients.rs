//! Clients with certificates of their own: whose they must be, and whom they name.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConnection};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use crate::certificate::{CertificateError, chain};

/// Whose certificates clients must have: without one there is no connection.
#[derive(Clone, Debug)]
pub struct Clients(Arc<dyn ClientCertVerifier>);

impl Clients {
    /// Those signed by one of the authorities in a PEM file, directly or by way of others. May block.
    ///
    /// # Errors
    /// When the file cannot be read, or has no authority in it that can be used.
    pub fn of_authorities(path: &Path) -> Result<Self, CertificateError> {
        let unusable = |why: String| CertificateError::Authority { path: path.into(), why };
        let mut roots = RootCertStore::empty();
        for authority in chain(path)? {
            roots.add(authority).map_err(|error| unusable(error.to_string()))?;
        }
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build();
        Ok(Self(verifier.map_err(|error| unusable(error.to_string()))?))
    }

    pub(crate) fn verifier(self) -> Arc<dyn ClientCertVerifier> {
        self.0
    }
}

/// Whom the client's certificate names, as its common name.
pub(crate) fn name(session: &ServerConnection) -> Option<String> {
    name_in(session.peer_certificates()?.first()?)
}

fn name_in(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let mut names = parsed.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?;
    // Of several nobody can say which is meant.
    let well = !name.is_empty() && names.next().is_none();
    well.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    #[test]
    fn whom_a_certificate_names() {
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
    fn files_that_are_no_authorities() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("ca.pem");
        for (text, said) in [
            ("", "no certificate"),
            ("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n", "cannot trust"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Clients::of_authorities(&path).unwrap_err().to_string();
            assert!(error.contains("ca.pem") && error.contains(said), "{error}");
        }
    }
}
