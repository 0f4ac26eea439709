//! Load over HTTP/3, with the crates h3 and quinn on a runtime of tokio: a closed loop.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use h3_quinn::OpenStreams;
use http::{Request, Uri};
use quinn::crypto::rustls::QuicClientConfig;
use tokio::task::LocalSet;

use super::Error;
use super::http::responses::Answer;
use super::http::tls::{Protocol, Tls};
use super::options::Options;
use super::phases::Measured;
use super::result::counts::{Counts, Failure};
use super::result::report::{Raw, Report};
use super::workload::zipf::Zipf;
use crate::measure::thread_time;
use crate::system::procfs;

/// State shared by all connections.
struct Run {
    uris: Vec<Uri>,
    zipf: Zipf,
    timeout: Duration,
    /// The begin of the measured interval.
    begin: Cell<Option<Instant>>,
    /// The interval has ended.
    is_over: Cell<bool>,
    counts: RefCell<Counts>,
    /// Answers and their bytes within the interval.
    answered: Cell<(u64, u64)>,
}

/// Sends the load. The watched processes are those of the server.
pub(super) fn run(
    options: &Options,
    (address, paths, watched): (SocketAddr, &[String], &[u32]),
) -> Result<Report, Error> {
    let failed = |source| Error::Tls { address, source };
    let tls = Tls::to(&options.url.host, options.insecure, Protocol::Http3).map_err(failed)?;
    let uri = |path: &String| format!("https://{}{path}", options.url.authority).parse();
    let uris: Result<Vec<Uri>, _> = paths.iter().map(uri).collect();
    let run = Rc::new(Run {
        uris: uris.map_err(|error| failed(io::Error::other(error)))?,
        zipf: Zipf::new(paths.len(), options.zipf),
        timeout: options.timeout,
        begin: Cell::default(),
        is_over: Cell::default(),
        counts: RefCell::default(),
        answered: Cell::default(),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| Error::Connect { address, source })?;
    let local = LocalSet::new();
    let measured = local.block_on(&runtime, conduct(&run, options, &tls, (address, watched)));
    let measured = measured.map_err(|source| Error::Connect { address, source })?;
    let mut report = Report::new(options, "tokio");
    report.tls = Some("TLS 1.3".to_owned());
    let counts = run.counts.take();
    report.fill(Raw { counts, backlog: 0, measured }, options.objective);
    Ok(report)
}

/// Connects, warms up, measures, and waits for the requests in flight.
async fn conduct(
    run: &Rc<Run>,
    options: &Options,
    tls: &Tls,
    (address, watched): (SocketAddr, &[u32]),
) -> io::Result<Measured> {
    let tls = QuicClientConfig::try_from(tls.config().clone()).map_err(io::Error::other)?;
    let config = quinn::ClientConfig::new(Arc::new(tls));
    let mut random = fastrand::Rng::with_seed(options.seed);
    let mut users = Vec::new();
    for _ in 0..options.connections {
        // Each connection has a socket, as those of different clients.
        let any: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let endpoint = quinn::Endpoint::client((any, 0).into())?;
        let connecting = endpoint.connect_with(config.clone(), address, &options.url.host);
        let connecting = connecting.map_err(io::Error::other)?;
        let quic = tokio::time::timeout(options.timeout, connecting).await??;
        let opened = h3::client::new(h3_quinn::Connection::new(quic)).await;
        let (mut driver, send) = opened.map_err(io::Error::other)?;
        tokio::task::spawn_local(
            async move { poll_fn(|context| driver.poll_close(context)).await },
        );
        for _ in 0..options.pipeline {
            let (run, send, random) = (run.clone(), send.clone(), random.fork());
            users.push(tokio::task::spawn_local(use_connection(run, send, random)));
        }
    }
    tokio::time::sleep(options.warmup).await;
    let server_cpu = || match watched {
        [] => None,
        processes => procfs::run_time(processes).ok(),
    };
    let (server, client) = (server_cpu(), thread_time().as_secs_f64());
    let begin = Instant::now();
    run.begin.set(Some(begin));
    tokio::time::sleep(options.duration).await;
    run.is_over.set(true);
    let (end, client_after, server_after) =
        (Instant::now(), thread_time().as_secs_f64(), server_cpu());
    let (answered, bytes) = run.answered.get();
    for user in users {
        user.await?;
    }
    Ok(Measured {
        seconds: (end - begin).as_secs_f64(),
        answered,
        bytes,
        client_cpu: client_after - client,
        client_busy: client_after - client,
        server_cpu: server_after.zip(server).map(|(after, before)| after - before),
        server_events: None,
        server_user_events: None,
    })
}

/// Sends one request after the other until the run is over or a request fails.
async fn use_connection(
    run: Rc<Run>,
    mut send: SendRequest<OpenStreams, Bytes>,
    mut random: fastrand::Rng,
) {
    while !run.is_over.get() {
        let uri = run.uris[run.zipf.draw(&mut random)].clone();
        let start = Instant::now();
        let answer = tokio::time::timeout(run.timeout, ask(&mut send, uri)).await;
        let end = Instant::now();
        let mut counts = run.counts.borrow_mut();
        let failure = match answer {
            Ok(Ok((status, bytes))) => {
                let Some(begin) = run.begin.get() else { continue };
                if !run.is_over.get() {
                    let (answers, total) = run.answered.get();
                    run.answered.set((answers + 1, total + bytes));
                }
                if start >= begin {
                    let latency = (end - start).as_nanos() as u64;
                    let answer = Answer { status, keep_alive: true, number: None };
                    counts.offered += 1;
                    counts.complete(answer, latency, latency);
                }
                continue;
            }
            Ok(Err(_)) => Failure::Reset,
            Err(_) => Failure::Timeout,
        };
        counts.offered += 1;
        return counts.fail(failure);
    }
}

/// Sends a request. Returns the status and the length of the content.
async fn ask(
    send: &mut SendRequest<OpenStreams, Bytes>,
    uri: Uri,
) -> Result<(u16, u64), h3::error::StreamError> {
    let request = Request::get(uri).body(()).expect("it has a valid URI");
    let mut stream = send.send_request(request).await?;
    stream.finish().await?;
    let response = stream.recv_response().await?;
    let mut bytes = 0;
    while let Some(piece) = stream.recv_data().await? {
        bytes += piece.remaining() as u64;
    }
    Ok((response.status().as_u16(), bytes))
}
