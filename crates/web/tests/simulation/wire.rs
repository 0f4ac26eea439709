//! A client's connection, as it is or over TLS.
//!
//! The client's end of TLS is real, and so is what it draws; but how much it sends is always the same, so
//! that a seed decides what happens: the certificate's signatures have one length (Ed25519), and no session
//! is resumed.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use phalanx::sim::{Client, Net};
use rustls::client::Resumption;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// A connection to the server.
pub(crate) enum Wire {
    Plain(Client),
    Tls(Box<(Client, ClientConnection)>),
}

/// What the server shows, and who believes it.
pub(crate) struct Identity {
    place: tempfile::TempDir,
    believes: Arc<ClientConfig>,
}

/// Made once: in files, as the server wants it.
pub(crate) static IDENTITY: LazyLock<Identity> = LazyLock::new(|| {
    let place = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let params = rcgen::CertificateParams::new(["sim.test".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    std::fs::write(place.path().join("certificate.pem"), certificate.pem()).unwrap();
    std::fs::write(place.path().join("key.pem"), key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let provider = rustls::crypto::ring::default_provider();
    let mut believes = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    believes.resumption = Resumption::disabled();
    Identity { place, believes: Arc::new(believes) }
});

impl Identity {
    /// The certificate's file and the key's.
    pub(crate) fn files(&self) -> [PathBuf; 2] {
        ["certificate.pem", "key.pem"].map(|name| self.place.path().join(name))
    }
}

impl Wire {
    /// Connects, and shakes hands if the server is to be spoken to by TLS.
    pub(crate) async fn connect(net: &Net, address: SocketAddr, tls: bool) -> io::Result<Self> {
        let mut client = net.connect(address).await?;
        if !tls {
            return Ok(Self::Plain(client));
        }
        let name = "sim.test".try_into().unwrap();
        let mut session = ClientConnection::new(IDENTITY.believes.clone(), name).unwrap();
        while session.is_handshaking() {
            flush(&mut client, &mut session).await?;
            if !session.is_handshaking() {
                break;
            }
            receive(&mut client, &mut session).await?;
        }
        flush(&mut client, &mut session).await?;
        Ok(Self::Tls(Box::new((client, session))))
    }

    /// Waits for bytes and appends them. Zero is the end.
    pub(crate) async fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let Self::Tls(tls) = self else {
            let Self::Plain(client) = self else { unreachable!("one of the two") };
            return client.read(buffer).await;
        };
        let (client, session) = &mut **tls;
        loop {
            let mut piece = [0; 4096];
            match session.reader().read(&mut piece) {
                Ok(count) => {
                    buffer.extend_from_slice(&piece[..count]);
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => (),
                // Cut off: as a plain connection's end looks.
                Err(_) => return Ok(0),
            }
            receive(client, session).await?;
        }
    }

    /// Sends all of it.
    pub(crate) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(client) => client.write_all(bytes).await,
            Self::Tls(tls) => {
                let (client, session) = &mut **tls;
                session.writer().write_all(bytes)?;
                flush(client, session).await
            }
        }
    }

    /// Says that nothing more will be sent.
    pub(crate) async fn finish(&mut self) {
        let client = match self {
            Self::Plain(client) => client,
            Self::Tls(tls) => {
                let (client, session) = &mut **tls;
                session.send_close_notify();
                let _ = flush(client, session).await;
                client
            }
        };
        let _ = client.shutdown(Shutdown::Write);
    }
}

/// Receives once. The end is an error unless the server has said so before.
async fn receive(client: &mut Client, session: &mut ClientConnection) -> io::Result<()> {
    let mut raw = Vec::new();
    client.read(&mut raw).await?;
    let mut rest = &raw[..];
    loop {
        session.read_tls(&mut rest)?;
        let state = session.process_new_packets().expect("what the server seals is right");
        if rest.is_empty() || state.peer_has_closed() {
            break;
        }
    }
    if raw.is_empty() && session.is_handshaking() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

async fn flush(client: &mut Client, session: &mut ClientConnection) -> io::Result<()> {
    while session.wants_write() {
        let mut sealed = Vec::new();
        session.write_tls(&mut sealed)?;
        client.write_all(&sealed).await?;
    }
    Ok(())
}
