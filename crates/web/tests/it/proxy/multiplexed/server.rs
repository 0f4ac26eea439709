//! A server with HTTP/2 of the crate `h2`, and a client.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream, client, server};
use http::{HeaderMap, Request, Response, StatusCode};
use phalanx_testkit::tcp;
use phalanx_web::Proxy;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{oneshot, watch};

use crate::common::{Server, on_each_driver};
use crate::proxy::backend::passing;

/// A request to a server, its answer, and the number of its connection from 0.
pub(crate) type Call = (Request<RecvStream>, SendResponse<Bytes>, usize);

/// How the server ends its connections. It still accepts others, as if its successor had inherited the socket.
#[derive(Clone, Copy)]
pub(crate) enum Restart {
    /// It processes the requests that it has got, and announces with GOAWAY that it processes no others.
    Graceful,
    /// It closes them.
    Abrupt,
}

/// A server that runs on a thread of its own.
pub(crate) struct H2Server {
    pub(crate) address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
    restart: watch::Sender<Restart>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl H2Server {
    /// Starts a server that accepts this many requests at a time on a connection.
    pub(crate) fn new<F>(streams: u32, serve: impl Fn(Call) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (listener, address) = tcp::listener();
        listener.set_nonblocking(true).unwrap();
        let (stop, stopped) = oneshot::channel();
        let (accepted, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (count, serve) = (accepted.clone(), Arc::new(serve));
        let end = ended.clone();
        let (restart, restarted) = watch::channel(Restart::Graceful);
        let thread = thread::spawn(move || {
            let accept = async {
                let listener = TcpListener::from_std(listener).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let (number, serve) = (count.fetch_add(1, Relaxed), serve.clone());
                    let mut restarted = restarted.clone();
                    restarted.mark_unchanged();
                    let end = end.clone();
                    let connection = async move {
                        let mut builder = server::Builder::new();
                        builder.max_concurrent_streams(streams);
                        let Ok(mut connection) = builder.handshake(stream).await else { return };
                        loop {
                            tokio::select! {
                                next = connection.accept() => {
                                    let Some(Ok((request, respond))) = next else { return };
                                    tokio::spawn(serve((request, respond, number)));
                                }
                                Ok(()) = restarted.changed() => {
                                    let how = *restarted.borrow_and_update();
                                    match how {
                                        Restart::Graceful => connection.graceful_shutdown(),
                                        Restart::Abrupt => return,
                                    }
                                }
                            }
                        }
                    };
                    tokio::spawn(async move {
                        connection.await;
                        end.fetch_add(1, Relaxed);
                    });
                }
            };
            runtime().block_on(async {
                tokio::select! {
                    () = accept => (),
                    _ = stopped => (),
                }
            });
        });
        Self { address, accepted, ended, restart, stop: Some(stop), thread: Some(thread) }
    }

    /// Number of accepted connections.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Relaxed)
    }

    /// Number of connections that have ended.
    pub(crate) fn ended(&self) -> usize {
        self.ended.load(Relaxed)
    }

    /// Ends all connections.
    pub(super) fn restart(&self, how: Restart) {
        self.restart.send_replace(how);
    }

    /// Closes all connections and the listener.
    pub(super) fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for H2Server {
    fn drop(&mut self) {
        self.stop();
    }
}

pub(super) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Runs `test` with a proxy before each of the servers that `start` makes, on each driver.
pub(super) fn with_server<F: Future<Output = ()>>(
    start: impl Fn() -> H2Server,
    change: impl Fn(&mut Proxy),
    test: impl Fn(Server, H2Server) -> F,
) {
    let running = Mutex::new(None);
    let config = |_: &std::path::Path| {
        let backend = start();
        let mut config = passing(backend.address, |proxy| {
            proxy.to = vec![format!("h2c://{}", backend.address).parse().unwrap()];
            change(proxy);
        });
        config.h2c = true;
        config.runtime.admin = Some((std::net::Ipv4Addr::LOCALHOST, 0).into());
        *running.lock().unwrap() = Some(backend);
        config
    };
    on_each_driver(config, |server, _| {
        let backend = running.lock().unwrap().take().expect("it was started");
        runtime().block_on(test(server.clone(), backend));
    });
}

/// A client of the proxy.
pub(super) type Client = client::SendRequest<Bytes>;

pub(super) async fn connect(server: &Server) -> Client {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (client, connection) = client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client.ready().await.unwrap()
}

/// Starts a request for `/api/x`. Its content follows if `has_body`.
pub(super) fn start(
    client: &mut Client,
    method: &str,
    has_body: bool,
) -> (client::ResponseFuture, SendStream<Bytes>) {
    let request = Request::builder().method(method).uri("http://a.example/api/x");
    let request = request.header("te", "trailers").header("cookie", "a=b").body(()).unwrap();
    client.send_request(request, !has_body).unwrap()
}

/// Sends all of `content` when the windows permit it.
pub(crate) async fn send(stream: &mut SendStream<Bytes>, mut content: Bytes, ends: bool) {
    while !content.is_empty() {
        stream.reserve_capacity(content.len());
        let room = poll_fn(|context| stream.poll_capacity(context)).await.unwrap().unwrap();
        let part = content.split_to(room.min(content.len()));
        stream.send_data(part, ends && content.is_empty()).unwrap();
    }
}

/// Receives one piece of content.
pub(super) async fn piece(content: &mut RecvStream) -> Option<Bytes> {
    let piece = content.data().await?.unwrap();
    let _ = content.flow_control().release_capacity(piece.len());
    Some(piece)
}

/// Receives the rest of the content, and the trailers.
pub(super) async fn read_to_end(content: &mut RecvStream) -> (Vec<u8>, Option<HeaderMap>) {
    let mut all = Vec::new();
    while let Some(piece) = piece(content).await {
        all.extend_from_slice(&piece);
    }
    (all, content.trailers().await.unwrap())
}

/// The response to a GET.
pub(super) async fn get(client: &Client) -> (StatusCode, Vec<u8>) {
    let mut client = client.clone().ready().await.unwrap();
    let response = start(&mut client, "GET", false).0.await.unwrap();
    let status = response.status();
    (status, read_to_end(&mut response.into_body()).await.0)
}

/// A head with this status.
pub(crate) fn head(status: u16) -> Response<()> {
    Response::builder().status(status).header("x-own", "1").body(()).unwrap()
}

/// A boxed future, so that functions can be passed to servers.
pub(crate) type Served = Pin<Box<dyn Future<Output = ()> + Send>>;
