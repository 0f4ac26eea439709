//! TLS connections to other servers, such as the remote broker of a bridge.

use std::io;
use std::path::Path;
use std::sync::Arc;

use phalanx::net::{IoTimeout, Stream};
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};

use crate::certificates::certificate::{CertificateError, chain, private_key};
use crate::certificates::clients;
use crate::outgoing::verifier::Verifier;
use crate::stream::session::TlsStream;

/// The authorities that a client trusts, and its own certificate.
#[derive(Clone, Debug)]
pub struct Connector {
    config: Arc<ClientConfig>,
    authorities: Arc<RootCertStore>,
}

impl Connector {
    /// Loads the authorities in a PEM file, by default those of the system, and the client's certificate and key, if
    /// any. The file may also contain the self-signed certificate of a server. The client offers the ALPN protocols in
    /// this order. May block.
    ///
    /// # Errors
    /// If a file is unusable.
    pub fn load(
        authorities: Option<&Path>,
        identity: Option<(&Path, &Path)>,
        protocols: &[&[u8]],
    ) -> Result<Self, CertificateError> {
        let roots = Arc::new(authorities.map_or_else(of_system, clients::authorities)?);
        let trusted = authorities.map_or(Ok(Vec::new()), chain)?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder
            .with_safe_default_protocol_versions()
            .expect("the provider supports the default versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier::new(roots.clone(), trusted)));
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                // Also checks that certificate and key match.
                crate::certificates::certificate::check(certificate, key)?;
                let unusable = |error: rustls::Error| CertificateError::Unusable {
                    certificate: certificate.into(),
                    key: key.into(),
                    reason: error.to_string(),
                };
                builder
                    .with_client_auth_cert(chain(certificate)?, private_key(key)?)
                    .map_err(unusable)?
            }
        };
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Self { config: Arc::new(config), authorities: roots })
    }

    /// The same authorities and certificate, with these ALPN protocols instead.
    #[must_use]
    pub fn with_protocols(&self, protocols: &[&[u8]]) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Self { config: Arc::new(config), authorities: self.authorities.clone() }
    }

    /// Whether both trust the same authorities, listed in the same order.
    pub fn trusts_as(&self, other: &Self) -> bool {
        self.authorities.roots == other.authorities.roots
    }

    /// The configuration, for a program that does not use this runtime's sockets.
    pub fn config(&self) -> Arc<ClientConfig> {
        self.config.clone()
    }

    /// Performs a handshake with the server of this host name or IP address, for at most `timeout`.
    ///
    /// # Errors
    /// Like [`Stream::read`], and `InvalidData` if the server's certificate is not trusted or has another name.
    pub async fn connect(
        &self,
        stream: Stream,
        host: &str,
        timeout: IoTimeout,
    ) -> io::Result<Box<TlsStream>> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let name = ServerName::try_from(host.to_owned()).map_err(invalid)?;
        TlsStream::connect(stream, self.config.clone(), name, timeout).await.map(Box::new)
    }
}

/// Whether a certificate can be for this host name or IP address.
pub fn is_server_name(host: &str) -> bool {
    ServerName::try_from(host).is_ok()
}

/// The authorities that every program of the system trusts.
fn of_system() -> Result<RootCertStore, CertificateError> {
    let mut roots = RootCertStore::empty();
    // Individual unusable certificates of the system are ignored.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err(CertificateError::NoSystemAuthorities) } else { Ok(roots) }
}
