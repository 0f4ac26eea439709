//! A client that speaks TLS over a simulated connection.

use std::io::{BufRead, ErrorKind, Read, Write};
use std::path::Path;
use std::sync::{Arc, LazyLock};

use phalanx::sim::Client;
use phalanx_tls::{Certificates, Source};
use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// A server's certificate and key in files, and a client's configuration that trusts it.
struct Identity {
    folder: tempfile::TempDir,
    client: Arc<ClientConfig>,
}

static IDENTITY: LazyLock<Identity> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let params = rcgen::CertificateParams::new(["sim.test".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    std::fs::write(folder.path().join("certificate.pem"), certificate.pem()).unwrap();
    std::fs::write(folder.path().join("key.pem"), key.serialize_pem()).unwrap();
    Identity { folder, client: Arc::new(trusting(certificate.der().clone())) }
});

fn trusting(certificate: CertificateDer<'static>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = rustls::crypto::ring::default_provider();
    let mut config = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config
}

/// The certificates of the server.
pub(crate) fn certificates() -> Arc<Certificates> {
    let path = |name: &str| Path::join(IDENTITY.folder.path(), name);
    let (certificate, key) = (path("certificate.pem"), path("key.pem"));
    let source = Source { names: Vec::new(), certificate, key, is_awaited: false };
    let loaded = Certificates::load(vec![source], std::time::SystemTime::now());
    Arc::new(loaded.unwrap().0)
}

/// A connection whose handshake is complete.
pub(crate) struct TlsClient {
    client: Client,
    pub(crate) session: ClientConnection,
}

impl TlsClient {
    pub(crate) async fn connect(client: Client) -> Self {
        let name = "sim.test".try_into().unwrap();
        let session = ClientConnection::new(IDENTITY.client.clone(), name).unwrap();
        let mut this = Self { client, session };
        while this.session.is_handshaking() {
            this.flush().await;
            if this.session.is_handshaking() {
                assert!(this.receive(&mut Vec::new()).await > 0, "the server has closed");
            }
        }
        this.flush().await;
        this
    }

    pub(crate) async fn write_all(&mut self, bytes: &[u8]) {
        self.session.writer().write_all(bytes).unwrap();
        self.flush().await;
    }

    async fn flush(&mut self) {
        while self.session.wants_write() {
            let mut sealed = Vec::new();
            self.session.write_tls(&mut sealed).unwrap();
            self.client.write_all(&sealed).await.unwrap();
        }
    }

    /// Receives once, and appends the plaintext. Returns the number of received bytes; zero at the end.
    pub(crate) async fn receive(&mut self, opened: &mut Vec<u8>) -> usize {
        let mut raw = Vec::new();
        let received = self.client.read(&mut raw).await.unwrap();
        let mut rest = &raw[..];
        while !rest.is_empty() {
            self.session.read_tls(&mut rest).unwrap();
            self.session.process_new_packets().unwrap();
            self.take_plaintext(opened);
        }
        received
    }

    fn take_plaintext(&mut self, opened: &mut Vec<u8>) {
        let mut reader = self.session.reader();
        loop {
            match reader.fill_buf().map(<[u8]>::len) {
                Ok(0) => return,
                Ok(length) => {
                    let before = opened.len();
                    opened.resize(before + length, 0);
                    reader.read_exact(&mut opened[before..]).unwrap();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
}
