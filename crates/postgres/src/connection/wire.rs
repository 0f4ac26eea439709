//! The byte stream of a connection: plain, or encrypted with the feature `tls`.

use std::net::Shutdown;
use std::time::Duration;

use phalanx::net::{IoTimeout, Keepalive, Stream};
#[cfg(feature = "tls")]
pub(super) use phalanx_tls::Wire;

use crate::config::{Address, Config};
use crate::error::Fault;

#[cfg(not(feature = "tls"))]
pub(super) type Wire = Stream;

/// A stream without encryption.
#[cfg(feature = "tls")]
const PLAIN: fn(Stream) -> Wire = Wire::Plain;
#[cfg(not(feature = "tls"))]
const PLAIN: fn(Stream) -> Wire = std::convert::identity;

/// An idle connection ends when its server has not been reached for 90 seconds. Otherwise the next queries would notice
/// that, after `query_timeout`, and their outcome would be unknown.
const KEEPALIVE: Keepalive =
    Keepalive { idle: Duration::from_secs(60), interval: Duration::from_secs(10), count: 3 };

/// Opens a connection, and encrypts it if the configuration demands that.
pub(super) async fn open(config: &Config) -> Result<Wire, Fault> {
    let limit = IoTimeout::after(config.connect_timeout);
    match &config.address {
        Address::Tcp(address) => {
            let stream = Stream::connect(*address, limit).await?;
            stream.set_keepalive(Some(KEEPALIVE))?;
            encrypt(stream, config).await
        }
        Address::Unix(path) => Ok(PLAIN(Stream::connect_unix(path, limit).await?)),
    }
}

/// Closes the connection in both directions. It fails if the connection has ended already.
pub(super) fn close(wire: &Wire) {
    #[cfg(feature = "tls")]
    let wire = wire.stream();
    let _ = wire.shutdown(Shutdown::Both);
}

#[cfg(not(feature = "tls"))]
#[allow(clippy::unused_async, reason = "the same signature as with TLS")]
async fn encrypt(stream: Stream, _: &Config) -> Result<Wire, Fault> {
    Ok(stream)
}

/// Asks for TLS, and performs the handshake.
#[cfg(feature = "tls")]
async fn encrypt(stream: Stream, config: &Config) -> Result<Wire, Fault> {
    use std::io::ErrorKind::{InvalidData, InvalidInput};

    let Some((connector, host)) = &config.tls else { return Ok(PLAIN(stream)) };
    let limit = IoTimeout::after(config.connect_timeout);
    let mut request = bytes::BytesMut::new();
    postgres_protocol::message::frontend::ssl_request(&mut request);
    stream.write(Vec::from(request), limit).await?;
    let mut answer = [0];
    // Exactly one byte: what follows belongs to the handshake, so nobody can insert a message before it.
    stream.read_exact(&mut answer, limit).await?;
    match answer[0] {
        b'S' => {}
        b'N' => {
            let message = "the server does not offer TLS (`ssl = on` in postgresql.conf)";
            return Err(Fault::Protocol(message.to_owned()));
        }
        // An error, such as that the server cannot start a process. Its text is not authenticated.
        b'E' => return Err(Fault::Closed),
        other => {
            let message = format!("the server answered {:?} to the request of TLS", other as char);
            return Err(Fault::Protocol(message));
        }
    }
    let encrypted = connector.connect(stream, host, limit).await;
    encrypted.map(Wire::Tls).map_err(|error| match error.kind() {
        // The certificate is not trusted, or has another name.
        InvalidData | InvalidInput => Fault::Protocol(format!("TLS with {host}: {error}")),
        _ => Fault::Io(error),
    })
}
