//! An independent HTTP/3 client: the crates h3 and quinn.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use h3::client::{RequestStream, SendRequest};
use h3_quinn::{BidiStream, OpenStreams};
use http::{Method, Request, Response};
use phalanx_testkit::tcp;
use quinn::crypto::rustls::QuicClientConfig;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::common::Server;
use crate::simulation::wire::IDENTITY;

/// Runs a client.
pub(super) fn block_on<T>(client: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime
        .block_on(async { tokio::time::timeout(phalanx_testkit::TIMEOUT, client).await.unwrap() })
}

/// The address that the server announces over HTTP/1.1.
pub(super) fn announced(server: &Server) -> SocketAddr {
    announced_by(&IDENTITY.client_config(), server.address)
}

/// Like [`announced`], at one of several addresses.
pub(super) fn announced_by(tls: &ClientConfig, address: SocketAddr) -> SocketAddr {
    let name = "sim.test".try_into().unwrap();
    let session = ClientConnection::new(Arc::new(tls.clone()), name).unwrap();
    let mut stream = StreamOwned::new(session, tcp::connect(address));
    stream.write_all(b"GET / HTTP/1.1\r\nHost: sim.test\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let value = text.split_once("Alt-Svc: h3=\":").expect("it is announced").1;
    let port = value.split('"').next().unwrap().parse().unwrap();
    (address.ip(), port).into()
}

/// Connects with QUIC.
pub(super) async fn connect(
    address: SocketAddr,
) -> Result<quinn::Connection, quinn::ConnectionError> {
    connect_from(address).await.map(|(_, connection)| connection)
}

/// Like [`connect`], with the client's socket.
pub(super) async fn connect_from(
    address: SocketAddr,
) -> Result<(quinn::Endpoint, quinn::Connection), quinn::ConnectionError> {
    connect_with(address, 1).await
}

/// Like [`connect_from`], with a version of QUIC.
pub(super) async fn connect_with(
    address: SocketAddr,
    version: u32,
) -> Result<(quinn::Endpoint, quinn::Connection), quinn::ConnectionError> {
    connect_configured(address, quinn::TransportConfig::default(), version).await
}

/// Like [`connect_with`], with parameters of QUIC.
pub(super) async fn connect_configured(
    address: SocketAddr,
    transport: quinn::TransportConfig,
    version: u32,
) -> Result<(quinn::Endpoint, quinn::Connection), quinn::ConnectionError> {
    let tls = IDENTITY.client_config();
    let endpoint = endpoint(&tls, transport, version);
    let connection = endpoint.connect(address, "sim.test").unwrap().await?;
    Ok((endpoint, connection))
}

/// Like [`connect`], to a server with a certificate that `tls` trusts.
pub(super) async fn connect_trusting(
    tls: &ClientConfig,
    address: SocketAddr,
) -> Result<quinn::Connection, quinn::ConnectionError> {
    let endpoint = endpoint(tls, quinn::TransportConfig::default(), 1);
    endpoint.connect(address, "sim.test").unwrap().await
}

fn endpoint(
    tls: &ClientConfig,
    transport: quinn::TransportConfig,
    version: u32,
) -> quinn::Endpoint {
    let mut tls = tls.clone();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let tls = QuicClientConfig::try_from(tls).unwrap();
    let mut endpoint = quinn::Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let mut config = quinn::ClientConfig::new(Arc::new(tls));
    config.version(version).transport_config(Arc::new(transport));
    endpoint.set_default_client_config(config);
    endpoint
}

/// A request and its response.
pub(super) type Stream = RequestStream<BidiStream<Bytes>, Bytes>;

/// A connection with HTTP/3.
#[derive(Clone)]
pub(super) struct Client {
    send: SendRequest<OpenStreams, Bytes>,
    pub(super) quic: quinn::Connection,
}

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> Self {
        Self::over(connect(address).await.unwrap()).await
    }

    pub(super) async fn over(quic: quinn::Connection) -> Self {
        let connection = h3_quinn::Connection::new(quic.clone());
        let (mut driver, send) = h3::client::new(connection).await.unwrap();
        tokio::spawn(async move { poll_fn(|context| driver.poll_close(context)).await });
        Self { send, quic }
    }

    /// Sends a request and receives its response.
    pub(super) async fn ask(
        &mut self,
        method: Method,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Result<(Response<()>, Vec<u8>), h3::error::StreamError> {
        let uri = format!("https://sim.test{path}");
        let request = Request::builder().method(method).uri(uri);
        let request =
            fields.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let mut stream = self.send.send_request(request.body(()).unwrap()).await?;
        for piece in body.chunks(10_000) {
            // The server may respond before it has received everything.
            if stream.send_data(Bytes::copy_from_slice(piece)).await.is_err() {
                break;
            }
        }
        let _ = stream.finish().await;
        let response = stream.recv_response().await?;
        Ok((response, content(&mut stream).await?))
    }

    /// Sends a request for a file, and returns when its response begins.
    pub(super) async fn begin(&mut self, path: &str) -> Stream {
        let request = Request::get(format!("https://sim.test{path}")).body(()).unwrap();
        let mut stream = self.send.send_request(request).await.unwrap();
        stream.finish().await.unwrap();
        stream.recv_response().await.unwrap();
        stream
    }

    pub(super) async fn get(&mut self, path: &str) -> (Response<()>, Vec<u8>) {
        self.ask(Method::GET, path, &[], b"").await.unwrap()
    }
}

/// Receives the content of a response.
pub(super) async fn content(stream: &mut Stream) -> Result<Vec<u8>, h3::error::StreamError> {
    let mut content = Vec::new();
    while let Some(mut piece) = stream.recv_data().await? {
        content.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
    }
    Ok(content)
}

/// The first datagram of a new connection, whose client never answers.
pub(super) fn first_datagram(address: SocketAddr) -> Vec<u8> {
    let mut tls = (*IDENTITY.client_config()).clone();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let tls = Arc::new(QuicClientConfig::try_from(tls).unwrap());
    let now = std::time::Instant::now();
    let mut endpoint = quinn_proto::Endpoint::new(Arc::default(), None, false, None);
    let config = quinn_proto::ClientConfig::new(tls);
    let (_, mut connection) = endpoint.connect(now, config, address, "sim.test").unwrap();
    let mut datagram = Vec::new();
    let transmit = connection.poll_transmit(now, 1, &mut datagram).expect("an Initial packet");
    datagram.truncate(transmit.size);
    datagram
}
