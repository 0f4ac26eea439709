//! `https://`: certificate verification, and a first handshake that reports errors.
//!
//! Every connection performs a full handshake: sessions are not resumed, so that `--no-keep-alive` shows the cost
//! of a handshake. Only returning visitors of pages resume their sessions, as browsers do. One protocol is offered.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use phalanx::net::{IoTimeout, Stream};
use phalanx_tls::{Connector, TlsStream};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

/// ALPN name of HTTP/2 (RFC 9113 §3.1).
const H2: &[u8] = b"h2";

/// The protocol that the connections offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
    Http3,
}

/// Sessions that a visitor can resume; a server gives a visitor several tickets.
const MAX_SESSIONS: usize = 8;

/// TLS configuration of the connections to a server.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// A configuration for connections to `host`, a name or an address. With `insecure` any certificate is
    /// accepted; otherwise it must lead to a root that this system trusts.
    ///
    /// # Errors
    /// When the name is invalid, or this system has no trusted roots.
    pub(crate) fn to(host: &str, insecure: bool, protocol: Protocol) -> io::Result<Self> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let mut config = match insecure {
            true => trusting_anybody().map_err(io::Error::other)?,
            false => {
                let of_system = Connector::load(None, None, &[]).map_err(io::Error::other)?;
                ClientConfig::clone(&of_system.config())
            }
        };
        config.resumption = Resumption::disabled();
        config.alpn_protocols = vec![match protocol {
            Protocol::Http1 => b"http/1.1".to_vec(),
            Protocol::Http2 => H2.to_vec(),
            Protocol::Http3 => b"h3".to_vec(),
        }];
        Ok(Self { config: Arc::new(config), name })
    }

    /// The client's configuration.
    pub(crate) fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    /// The same configuration for one visitor who resumes the last session.
    pub(crate) fn resuming(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::in_memory_sessions(MAX_SESSIONS);
        Self { config: Arc::new(config), name: self.name.clone() }
    }

    /// Performs a handshake, for at most `timeout`.
    pub(crate) async fn connect(
        &self,
        stream: Stream,
        timeout: IoTimeout,
    ) -> io::Result<TlsStream> {
        TlsStream::connect(stream, self.config.clone(), self.name.clone(), timeout).await
    }

    /// The client's session of a connection.
    fn session(&self) -> io::Result<ClientConnection> {
        let session = ClientConnection::new(self.config.clone(), self.name.clone());
        session.map_err(io::Error::other)
    }

    /// Performs a handshake on a separate connection, waiting at most `timeout` per read. Returns the negotiated
    /// parameters, as in `TLS 1.3, AES_256_GCM_SHA384`.
    ///
    /// # Errors
    /// When the server's certificate or the connection is bad, or HTTP/2 is required and not negotiated.
    pub(crate) fn try_on(&self, stream: &TcpStream, timeout: Duration) -> io::Result<String> {
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let mut session = self.session()?;
        while session.is_handshaking() {
            session.complete_io(&mut { stream })?;
        }
        let wants = self.config.alpn_protocols.iter().any(|protocol| protocol == H2);
        if wants && session.alpn_protocol() != Some(H2) {
            return Err(io::Error::other("the server does not offer HTTP/2"));
        }
        Ok(agreed(&session))
    }

    /// A blocking stream of plain text over `stream`.
    pub(crate) fn wrap(
        &self,
        stream: TcpStream,
    ) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        Ok(StreamOwned::new(self.session()?, stream))
    }
}

/// Version and cipher suite in their usual notation.
fn agreed(session: &ClientConnection) -> String {
    let version = session.protocol_version().and_then(|version| version.as_str());
    let version = version.unwrap_or("TLS").replace("TLSv", "TLS ").replace('_', ".");
    let suite = session.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
    let suite = suite.unwrap_or_default();
    format!("{version}, {}", suite.strip_prefix("TLS13_").unwrap_or(suite))
}

/// A configuration that accepts any certificate.
fn trusting_anybody() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions()?.dangerous();
    let builder = builder.with_custom_certificate_verifier(Arc::new(Anybody(provider)));
    Ok(builder.with_no_client_auth())
}

/// Accepts any certificate, as documented for `--insecure`. The handshake signature is verified nevertheless,
/// since every client does that work.
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use rustls::pki_types::PrivateKeyDer;
    use rustls::{HandshakeKind, ServerConfig, ServerConnection};

    use super::*;

    /// Sends one byte to each of this many clients.
    fn server(clients: usize) -> (u16, thread::JoinHandle<()>) {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let (config, listener) = (Arc::new(config), TcpListener::bind(("127.0.0.1", 0)).unwrap());
        let port = listener.local_addr().unwrap().port();
        let serve = move || {
            for client in listener.incoming().take(clients) {
                let session = ServerConnection::new(config.clone()).unwrap();
                let mut stream = StreamOwned::new(session, client.unwrap());
                stream.write_all(b"x").unwrap();
                let _ = stream.read(&mut [0]);
            }
        };
        (port, thread::spawn(serve))
    }

    #[test]
    fn only_returning_visitors_resume() {
        let (port, serving) = server(6);
        let kind = |tls: &Tls| {
            let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let mut stream = tls.wrap(stream).unwrap();
            // The tickets come with it.
            stream.read_exact(&mut [0]).unwrap();
            stream.conn.handshake_kind().unwrap()
        };
        let new = Tls::to("127.0.0.1", true, Protocol::Http1).unwrap();
        let (returning, another) = (new.resuming(), new.resuming());
        let kinds = [&new, &returning, &new, &returning, &another, &returning].map(kind);
        let (full, resumed) = (HandshakeKind::Full, HandshakeKind::Resumed);
        assert_eq!(kinds, [full, full, full, resumed, full, resumed]);
        serving.join().unwrap();
    }
}
