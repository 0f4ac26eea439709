//! A client's connection, plain or over TLS.
//!
//! The client's side of TLS is real, including its randomness, but the amount of data it sends does not vary,
//! so that a seed determines the run: signatures of the certificate have a fixed length (Ed25519), and
//! sessions are not resumed.

use std::io::{self, BufRead, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use phalanx::sim::{Client, Net};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// A connection to the server.
pub(crate) enum Wire {
    Plain(Client),
    Tls(Box<TlsClient>),
}

/// TLS over a client's connection.
pub(crate) struct TlsClient {
    client: Client,
    session: ClientConnection,
    /// Decrypted bytes that were not read yet.
    plaintext: Vec<u8>,
}

/// The server's certificate, and a client configuration that trusts it.
pub(crate) struct Identity {
    directory: tempfile::TempDir,
    client_config: Arc<ClientConfig>,
}

/// Created once, in files, because the server reads files.
pub(crate) static IDENTITY: LazyLock<Identity> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let params = rcgen::CertificateParams::new(["sim.test".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    std::fs::write(directory.path().join("certificate.pem"), certificate.pem()).unwrap();
    std::fs::write(directory.path().join("key.pem"), key.serialize_pem()).unwrap();
    Identity { directory, client_config: Arc::new(client_config(certificate.der().clone())) }
});

/// A client's configuration, which trusts a certificate.
pub(crate) fn client_config(trusted: CertificateDer<'static>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(trusted).unwrap();
    let provider = rustls::crypto::ring::default_provider();
    let mut config = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config
}

impl Identity {
    /// A client's configuration, which trusts the certificate.
    pub(crate) fn client_config(&self) -> Arc<ClientConfig> {
        self.client_config.clone()
    }

    /// Paths of the certificate and the key.
    pub(crate) fn files(&self) -> [PathBuf; 2] {
        ["certificate.pem", "key.pem"].map(|name| self.directory.path().join(name))
    }
}

impl Wire {
    /// Connects, and performs the TLS handshake if `tls` is set.
    pub(crate) async fn connect(net: &Net, address: SocketAddr, tls: bool) -> io::Result<Self> {
        let client = net.connect(address).await?;
        if !tls {
            return Ok(Self::Plain(client));
        }
        let name = "sim.test".try_into().unwrap();
        let session = ClientConnection::new(IDENTITY.client_config.clone(), name).unwrap();
        let mut tls = TlsClient { client, session, plaintext: Vec::new() };
        while tls.session.is_handshaking() {
            tls.flush().await?;
            if !tls.session.is_handshaking() {
                break;
            }
            tls.receive().await?;
        }
        tls.flush().await?;
        Ok(Self::Tls(Box::new(tls)))
    }

    /// Waits for bytes and appends them. Zero is the end.
    pub(crate) async fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Self::Plain(client) => client.read(buffer).await,
            Self::Tls(tls) => tls.read(buffer).await,
        }
    }

    /// Sends all of it.
    pub(crate) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(client) => client.write_all(bytes).await,
            Self::Tls(tls) => {
                tls.session.writer().write_all(bytes)?;
                tls.flush().await
            }
        }
    }

    /// Closes the sending side.
    pub(crate) async fn finish(&mut self) {
        let client = match self {
            Self::Plain(client) => client,
            Self::Tls(tls) => {
                tls.session.send_close_notify();
                let _ = tls.flush().await;
                &mut tls.client
            }
        };
        let _ = client.shutdown(Shutdown::Write);
    }
}

impl TlsClient {
    async fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        while self.plaintext.is_empty() {
            match self.session.reader().fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.receive().await?,
                // The end of the stream, or truncation, which looks the same on a plain connection.
                _ => return Ok(0),
            }
        }
        let count = self.plaintext.len();
        buffer.append(&mut self.plaintext);
        Ok(count)
    }

    /// Receives once. The end of the stream is an error until the handshake is complete.
    async fn receive(&mut self) -> io::Result<()> {
        let mut raw = Vec::new();
        self.client.read(&mut raw).await?;
        open(&mut self.session, &raw, &mut self.plaintext)?;
        if raw.is_empty() && self.session.is_handshaking() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    async fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            let mut records = Vec::new();
            self.session.write_tls(&mut records)?;
            self.client.write_all(&records).await?;
        }
        Ok(())
    }
}

/// Decrypts received bytes, an empty slice being the end, and appends the plaintext to `plaintext` immediately:
/// a session that holds more than 16 KiB of plaintext accepts no more input.
fn open(session: &mut ClientConnection, mut raw: &[u8], plaintext: &mut Vec<u8>) -> io::Result<()> {
    loop {
        session.read_tls(&mut raw)?;
        let state = session.process_new_packets().expect("what the server seals is right");
        let before = plaintext.len();
        plaintext.resize(before + state.plaintext_bytes_to_read(), 0);
        session.reader().read_exact(&mut plaintext[before..])?;
        if raw.is_empty() || state.peer_has_closed() {
            return Ok(());
        }
    }
}

/// A small record received together with the end of the largest one exceeds what a session holds; its
/// plaintext has to be read before more input is accepted.
#[test]
fn a_client_accepts_records_split_anywhere() {
    let [certificate, key] = IDENTITY.files();
    let provider = rustls::crypto::ring::default_provider();
    let config = rustls::ServerConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_file(certificate).unwrap()],
            PrivateKeyDer::from_pem_file(key).unwrap(),
        )
        .unwrap();
    let config = Arc::new(config);
    for cut in (1..40_000).step_by(97) {
        let mut server = rustls::ServerConnection::new(config.clone()).unwrap();
        let name = "sim.test".try_into().unwrap();
        let mut client = ClientConnection::new(IDENTITY.client_config.clone(), name).unwrap();
        let mut plaintext = Vec::new();
        while client.is_handshaking() || server.is_handshaking() {
            let mut raw = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut raw).unwrap();
            }
            server.read_tls(&mut &raw[..]).unwrap();
            server.process_new_packets().unwrap();
            raw.clear();
            while server.wants_write() {
                server.write_tls(&mut raw).unwrap();
            }
            open(&mut client, &raw, &mut plaintext).unwrap();
        }
        let mut raw = Vec::new();
        // The first record has the maximum size.
        for length in [16 << 10, 240, 16 << 10, 16 << 10, 1] {
            server.writer().write_all(&vec![7; length]).unwrap();
            server.write_tls(&mut raw).unwrap();
        }
        for piece in raw.chunks(cut) {
            open(&mut client, piece, &mut plaintext).unwrap();
        }
        assert_eq!(plaintext.len(), (3 << 14) + 241, "in pieces of {cut}");
    }
}
