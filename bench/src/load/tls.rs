//! `https://`: whom the load believes, and the first handshake, which tells of what goes wrong.
//!
//! Every connection shakes hands in full: sessions are not resumed, so that `--no-keep-alive` shows what a
//! handshake costs. One protocol is offered, HTTP/1.1 or HTTP/2.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
};

/// The protocol's name in a handshake (RFC 9113 §3.1).
const H2: &[u8] = b"h2";

/// How connections shake hands, and with whom.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// For connections to `host`, a name or an address. With `insecure` any certificate will do; otherwise
    /// it must lead to a root that this system trusts.
    ///
    /// # Errors
    /// When nothing can have such a name, or no root is found on this system.
    pub(crate) fn to(host: &str, insecure: bool, http2: bool) -> io::Result<Self> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let mut config = if insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        } else {
            builder.with_root_certificates(roots()?)
        }
        .with_no_client_auth();
        config.resumption = Resumption::disabled();
        config.alpn_protocols = vec![if http2 { H2.to_vec() } else { b"http/1.1".to_vec() }];
        Ok(Self { config: Arc::new(config), name })
    }

    /// The client's end of a connection.
    pub(crate) fn session(&self) -> Result<ClientConnection, rustls::Error> {
        let mut session = ClientConnection::new(self.config.clone(), self.name.clone())?;
        // A pipeline is written at once, however long.
        session.set_buffer_limit(None);
        Ok(session)
    }

    /// Shakes hands on a connection of its own, waiting for no more than `patience` at a time. What was
    /// agreed on, as in `TLS 1.3, AES_256_GCM_SHA384`.
    ///
    /// # Errors
    /// What is wrong with the server's certificate, or with the connection; or that it has no HTTP/2,
    /// where that is wanted.
    pub(crate) fn try_on(&self, stream: &TcpStream, patience: Duration) -> io::Result<String> {
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let mut session = self.session().map_err(io::Error::other)?;
        while session.is_handshaking() {
            session.complete_io(&mut { stream })?;
        }
        let wants = self.config.alpn_protocols.iter().any(|protocol| protocol == H2);
        if wants && session.alpn_protocol() != Some(H2) {
            return Err(io::Error::other("the server does not offer HTTP/2"));
        }
        Ok(agreed(&session))
    }

    /// The same connection as a stream of what is sealed, for who may block.
    pub(crate) fn wrap(
        &self,
        stream: TcpStream,
    ) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        Ok(StreamOwned::new(self.session().map_err(io::Error::other)?, stream))
    }
}

/// Version and cipher suite, as they are usually written.
fn agreed(session: &ClientConnection) -> String {
    let version = session.protocol_version().and_then(|version| version.as_str());
    let version = version.unwrap_or("TLS").replace("TLSv", "TLS ").replace('_', ".");
    let suite = session.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
    let suite = suite.unwrap_or_default();
    format!("{version}, {}", suite.strip_prefix("TLS13_").unwrap_or(suite))
}

/// Roots that this system trusts.
fn roots() -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    match (roots.is_empty(), found.errors.into_iter().next()) {
        (false, _) => Ok(roots),
        (true, Some(error)) => Err(io::Error::other(error)),
        (true, None) => Err(io::Error::other(
            "this system has no root certificates to judge the server's by; --insecure does without",
        )),
    }
}

/// Believes everybody, as `--insecure` says. That the server has its certificate's key is looked at all
/// the same: that is work which each client does.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
