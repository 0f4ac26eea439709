//! Simulation of HTTP/3: the network loses, duplicates and reorders datagrams, and every response must still be complete.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use phalanx::Graph;
use phalanx::net::UdpSocket;
use phalanx::sim::{self, Faults, Net, World};
use phalanx_http3::{decode_block, encoder};
use phalanx_web::{Config, Scheme, Server, Tls};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    StreamId, TransportConfig, VarInt,
};

use crate::simulation::site::{FILES, address, write_files};
use crate::simulation::wire::IDENTITY;

/// Longer than anything takes, however many datagrams are lost.
const TIMEOUT: Duration = Duration::from_secs(1 << 30);

/// A client, driven by hand.
struct Client {
    net: Net,
    socket: phalanx::sim::UdpClient,
    zero: Instant,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    quic: Connection,
    /// The received bytes of each stream, and whether it has ended.
    received: HashMap<StreamId, (Vec<u8>, bool)>,
}

impl Client {
    fn connect(net: Net) -> Self {
        let socket = net.bind_udp(SocketAddr::from(([10, 0, 0, 2], 0))).unwrap();
        let mut tls = (*IDENTITY.client_config()).clone();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
        let mut transport = TransportConfig::default();
        // Small windows make the server wait for the client.
        transport.max_idle_timeout(None).stream_receive_window(VarInt::from_u32(20_000));
        config.transport_config(Arc::new(transport));
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&net.draw(u64::MAX).to_be_bytes());
        let zero = Instant::now();
        let mut endpoint =
            Endpoint::new(Arc::new(EndpointConfig::default()), None, false, Some(seed));
        let connected = endpoint.connect(zero + net.now(), config, address(), "sim.test");
        let (handle, quic) = connected.unwrap();
        Self { net, socket, zero, endpoint, handle, quic, received: HashMap::new() }
    }

    fn now(&self) -> Instant {
        self.zero + self.net.now()
    }

    /// Sends what is ready, then waits for a datagram or a timer.
    async fn turn(&mut self) {
        self.turn_within(None).await;
        self.read();
    }

    /// Like [`turn`](Self::turn), for at most this long, and without reading streams.
    async fn turn_within(&mut self, longest: Option<Duration>) {
        self.send();
        let timer = self.quic.poll_timeout().map(|at| at.saturating_duration_since(self.now()));
        let received = self.receive(timer.into_iter().chain(longest).min()).await;
        let now = self.now();
        match received {
            None => self.quic.handle_timeout(now),
            Some((bytes, from)) => {
                let mut response = Vec::new();
                let event = self.endpoint.handle(now, from, None, None, bytes, &mut response);
                if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                    self.quic.handle_event(event);
                }
            }
        }
    }

    /// Waits for a datagram; `None` if there is none within this time.
    async fn receive(&mut self, within: Option<Duration>) -> Option<(BytesMut, SocketAddr)> {
        let mut buffer = [0; 2048];
        let received = {
            let mut receive = pin!(self.socket.recv_from(&mut buffer));
            let mut timer = pin!(async {
                match within {
                    Some(left) => self.net.sleep(left).await,
                    None => std::future::pending().await,
                }
            });
            let next = poll_fn(|context| match receive.as_mut().poll(context) {
                Poll::Ready(received) => Poll::Ready(Some(received.unwrap())),
                Poll::Pending => timer.as_mut().poll(context).map(|()| None),
            });
            next.await
        };
        received.map(|(length, from)| (BytesMut::from(&buffer[..length]), from))
    }

    /// Loses everything that arrives within this time.
    async fn drop_datagrams(&mut self, time: Duration) {
        self.send();
        let end = self.net.now() + time;
        while self.receive(Some(end.saturating_sub(self.net.now()))).await.is_some() {}
    }

    /// Receives for this long, without reading streams.
    async fn read_nothing(&mut self, time: Duration) {
        let end = self.net.now() + time;
        while self.net.now() < end {
            self.turn_within(Some(end - self.net.now())).await;
        }
    }

    /// Waits for the response on a stream.
    async fn response(&mut self, id: StreamId) -> (Vec<u8>, Vec<u8>) {
        while !self.received[&id].1 {
            self.turn().await;
        }
        parse(&self.received.remove(&id).expect("it was awaited").0)
    }

    fn send(&mut self) {
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.quic.handle_event(event);
            }
        }
        loop {
            let mut bytes = Vec::new();
            let Some(transmit) = self.quic.poll_transmit(self.now(), 1, &mut bytes) else { break };
            self.socket.send_to(&bytes[..transmit.size], transmit.destination).unwrap();
        }
    }

    /// Reads all streams in which a response is awaited.
    fn read(&mut self) {
        while let Some(event) = self.quic.poll() {
            if let quinn_proto::Event::ConnectionLost { reason } = event {
                panic!("the connection was lost: {reason}");
            }
        }
        for (id, (bytes, has_ended)) in &mut self.received {
            if *has_ended {
                continue;
            }
            let mut stream = self.quic.recv_stream(*id);
            let mut chunks = stream.read(true).unwrap();
            loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => bytes.extend_from_slice(&chunk.bytes),
                    Ok(None) => break *has_ended = true,
                    Err(quinn_proto::ReadError::Blocked) => break,
                    Err(error) => panic!("the response was reset: {error}"),
                }
            }
            let _ = chunks.finalize();
        }
    }

    /// Sends a request for a file.
    fn ask(&mut self, path: &str) -> StreamId {
        let id = self.quic.streams().open(Dir::Bi).expect("the server permits many streams");
        let mut request = Vec::new();
        encoder::head(&mut request, |block| {
            let fields = [
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "sim.test"),
                (":path", path),
            ];
            for (name, value) in fields {
                phalanx_http2::encoder::field(block, name.as_bytes(), value.as_bytes());
            }
        });
        assert_eq!(self.quic.send_stream(id).write(&request), Ok(request.len()));
        self.quic.send_stream(id).finish().unwrap();
        self.received.insert(id, (Vec::new(), false));
        id
    }
}

/// Takes an integer of variable length.
fn integer(rest: &mut &[u8]) -> usize {
    let (bytes, after) = rest.split_at(1 << (rest[0] >> 6));
    *rest = after;
    let number = bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte));
    number & ((1 << (8 * bytes.len() - 2)) - 1)
}

/// The status and the content of a response.
fn parse(mut rest: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut status, mut content) = (Vec::new(), Vec::new());
    while !rest.is_empty() {
        let (kind, length) = (integer(&mut rest), integer(&mut rest));
        let (payload, after) = rest.split_at(length);
        rest = after;
        match kind {
            0 => content.extend_from_slice(payload),
            1 => status = decode_block(payload).unwrap().remove(0).1,
            other => panic!("a frame of the type {other}"),
        }
    }
    (status, content)
}

async fn run_client(net: Net) {
    let mut client = Client::connect(net.clone());
    while client.quic.is_handshaking() {
        client.turn().await;
    }
    for _ in 0..1 + net.draw(3) {
        let mut asked = Vec::new();
        for _ in 0..1 + net.draw(4) {
            let paths = ["/small.txt", "/empty", "/whole.bin", "/long.txt", "/missing"];
            let path = paths[net.draw(paths.len() as u64) as usize];
            asked.push((path, client.ask(path)));
        }
        while client.received.values().any(|(_, has_ended)| !has_ended) {
            client.turn().await;
        }
        for (path, id) in asked {
            let (status, content) = parse(&client.received.remove(&id).unwrap().0);
            match FILES.get(path) {
                Some(versions) => {
                    assert_eq!(status, b"200", "{path}");
                    assert!(content == versions[0], "{path}: {} bytes", content.len());
                }
                None => assert_eq!(status, b"404"),
            }
        }
    }
    let now = client.now();
    client.quic.close(now, VarInt::from_u32(0x100), Bytes::new());
    client.send();
}

/// The idle timeout of [`patient`], and the time without a datagram after which its server forgets a client.
const IDLE: Duration = Duration::from_secs(10);
const FORGOTTEN: Duration = Duration::from_secs(65);

/// Connections outlive their time limits while they serve requests.
async fn wait(net: Net) {
    let mut client = Client::connect(net.clone());
    while client.quic.is_handshaking() {
        client.turn().await;
    }
    for _ in 0..4 {
        let id = client.ask("/small.txt");
        assert_eq!(client.response(id).await.0, b"200");
        client.read_nothing(IDLE * 6 / 10).await;
    }
    // The client does not acknowledge a response.
    let id = client.ask("/small.txt");
    client.drop_datagrams(IDLE * 3).await;
    assert_eq!(client.response(id).await.0, b"200");
    // The response waits for the client's window, and neither side has anything to send.
    let id = client.ask("/whole.bin");
    client.read_nothing(FORGOTTEN * 3).await;
    assert!(client.response(id).await.1 == FILES["/whole.bin"][0]);
    let now = client.now();
    client.quic.close(now, VarInt::from_u32(0x100), Bytes::new());
    client.send();
}

fn patient(world: &mut World) {
    // The client's pauses are part of the limits.
    world.advance_only_when_idle();
    serve(world, |config| {
        config.timeouts.idle = IDLE;
        config.timeouts.request = FORGOTTEN - Duration::from_secs(5);
        config.timeouts.send = FORGOTTEN * 10;
    });
    world.client(wait(world.net()));
}

fn web(world: &mut World) {
    // Only the network fails.
    let mut rate = |most| world.draw(most) as u32;
    let (lost, duplicated, reordered) = (rate(200), rate(200), rate(500));
    if world.draw(4) > 0 {
        world.set_faults(Faults { lost, duplicated, reordered, ..Faults::NONE });
    }
    serve(world, |_| ());
    for _ in 0..1 + world.draw(3) {
        world.client(run_client(world.net()));
    }
}

fn serve(world: &mut World, change: impl FnOnce(&mut Config)) {
    write_files(world);
    let mut config = Config::new();
    config.runtime.workers = world.processors();
    config.hash_seed = Some(world.seed());
    let timeouts = &mut config.timeouts;
    (timeouts.handshake, timeouts.request) = (TIMEOUT, Duration::from_secs(600));
    // The server repeats its last datagrams to a client whose close was lost until the connection is idle.
    (timeouts.idle, timeouts.send) = (Duration::from_secs(600), TIMEOUT);
    config.max_queue_delay = None;
    let [certificate, key] = IDENTITY.files();
    config.hosts[0].tls = Some(Tls { certificate, key });
    config.listen = vec![Scheme::Https.at(address())];
    config.http3 = true;
    change(&mut config);
    let mut graph = Graph::new();
    let server = Server::declare(&mut graph, &config, [world.root()]).expect("all is there");
    let is_bound = RefCell::new(false);
    world.program(graph, move |_| {
        if !is_bound.replace(true) {
            server.accept_http3(UdpSocket::bind(address())?, 0, 1)?;
        }
        Ok(())
    });
}

#[test]
fn responses_survive_a_lossy_network() {
    sim::explore(60, web);
}

#[test]
fn connections_outlive_their_limits_while_they_serve_requests() {
    sim::explore(4, patient);
}
