//! The look inside: `/snapshot.json` and `/metrics`, served by a stage of the program itself.

mod metrics;
mod snapshot;

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use phalanx_core::{Control, Graph, Session, SharedStage, sleep};
use phalanx_driver::{Kind, Payload};

use crate::error::{RunError, StartError};
use crate::io::Patience;
use crate::is_draining;
use crate::long::LongCounts;
use crate::net::{Listener, Stream, bind};

pub use snapshot::{
    ArcSnapshot, ColumnSnapshot, ProcessorSnapshot, ShedSnapshot, Snapshot, StageSnapshot, VERSION,
};

/// A request for an admin page is short.
const MAX_REQUEST: usize = 8 * 1024;
/// A client of the admin pages has this long for each request.
const PATIENCE: Patience = Patience::limit(Duration::from_secs(10));
/// So many at once; more are turned away.
const MAX_CONNECTIONS: usize = 64;

/// Where the pages' figures come from.
pub(crate) struct Source {
    pub(crate) control: Control,
    pub(crate) driver: Kind,
    pub(crate) epoch: Instant,
    pub(crate) system_calls: Vec<Arc<AtomicU64>>,
    pub(crate) long: Arc<LongCounts>,
}

/// The admin pages of one program.
pub(crate) struct Admin {
    stage: SharedStage<Arc<OnceLock<Source>>>,
    source: Arc<OnceLock<Source>>,
    listener: Mutex<Option<TcpListener>>,
    address: SocketAddr,
}

impl Admin {
    pub(crate) fn declare(graph: &mut Graph, address: SocketAddr) -> Result<Self, RunError> {
        let refused = |source| RunError::Admin { address, source };
        let listener = bind(address, 1).map_err(refused)?.remove(0);
        let address = listener.local_addr().map_err(refused)?;
        let source = Arc::new(OnceLock::new());
        let stage = graph.shared("admin", source.clone());
        Ok(Self { stage, source, listener: Mutex::new(Some(listener)), address })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn describe(&self, source: Source) {
        assert!(self.source.set(source).is_ok(), "described once");
    }

    /// Begins to accept, on the calling processor.
    pub(crate) fn start(&self) -> Result<(), StartError> {
        let listener = self.listener.lock().expect("not poisoned").take().expect("started once");
        let (listener, stage) = (Listener::new(listener)?, self.stage);
        stage.dispatch(move |_| accept(listener, stage))?;
        Ok(())
    }
}

/// Until the program drains; then its connections end too.
async fn accept(listener: Listener, stage: SharedStage<Arc<OnceLock<Source>>>) {
    let session = Session::new();
    loop {
        match listener.accept().await {
            Ok(stream) if session.operations() < MAX_CONNECTIONS => {
                let _ = stage.dispatch_in(&session, move |source| async move {
                    let source = source.get().expect("described before the start");
                    let _ = serve(stream, source).await;
                });
            }
            Ok(_) => (),
            Err(_) if is_draining() => break,
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
    session.end().await;
}

/// Answers the requests of one connection, one after the other.
async fn serve(stream: Stream, source: &Source) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let (head, wanted) = loop {
            if let Some(parsed) = parse(&buffer) {
                break parsed;
            }
            let read = stream.read(&mut buffer, PATIENCE.or_drain()).await;
            if buffer.len() > MAX_REQUEST || !matches!(read, Ok(1..)) {
                return Ok(());
            }
        };
        buffer.drain(..head);
        let (status, kind, body) = match wanted {
            Page::Snapshot => ("200 OK", "application/json", Snapshot::take(source).to_json()),
            Page::Metrics => {
                ("200 OK", metrics::CONTENT_TYPE, metrics::render(&Snapshot::take(source)))
            }
            Page::Index => ("200 OK", "text/plain; charset=utf-8", INDEX.to_owned()),
            Page::Missing => ("404 Not Found", "text/plain; charset=utf-8", INDEX.to_owned()),
            Page::Refused => {
                ("405 Method Not Allowed", "text/plain; charset=utf-8", INDEX.to_owned())
            }
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
             Cache-Control: no-store\r\n{}\r\n",
            body.len(),
            if matches!(wanted, Page::Refused) { "Allow: GET\r\n" } else { "" },
        );
        let payload = Payload { head: head.into_bytes(), body: body.into_bytes().into() };
        stream.write(payload, PATIENCE).await?;
    }
}

const INDEX: &str =
    "/snapshot.json  all figures of this moment\n/metrics        the same for Prometheus\n";

enum Page {
    Index,
    Snapshot,
    Metrics,
    Missing,
    Refused,
}

/// The length of the request's head and what it asks for; none while it is incomplete. What is no
/// request at all is answered as a missing page.
fn parse(bytes: &[u8]) -> Option<(usize, Page)> {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => None,
        Err(_) => Some((bytes.len(), Page::Missing)),
        Ok(httparse::Status::Complete(length)) => {
            let path = request.path.unwrap_or_default().split('?').next().unwrap_or_default();
            let page = match (request.method.unwrap_or_default(), path) {
                ("GET", "/") => Page::Index,
                ("GET", "/snapshot.json") => Page::Snapshot,
                ("GET", "/metrics") => Page::Metrics,
                ("GET", _) => Page::Missing,
                _ => Page::Refused,
            };
            Some((length, page))
        }
    }
}
