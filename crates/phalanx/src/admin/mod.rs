//! The admin pages, served by a stage of the program: a live view at `/`, the snapshot as JSON, OpenMetrics,
//! a graph for Graphviz, and a trace for Perfetto.
//!
//! Requests are accepted only for hosts that no web page controls; see `hosts.rs`.
//!
//! The pages must not disturb the program. Their operations yield between the processors of a snapshot and
//! between the pieces of a response, and suspend while they wait for a second sample or a trace. `take.rs`
//! takes the snapshot, which is the only source of data; `picture/`, `graph.rs`, `metrics.rs` and
//! `timeline.rs` are pure functions of snapshots.

mod custom;
mod graph;
mod hosts;
mod http;
mod metrics;
mod pages;
mod picture;
mod take;
mod timeline;
mod waits;

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use phalanx_core::{Control, Graph, Session, SharedStage, sleep};
use phalanx_driver::DriverKind;

use crate::cores::ActiveProcessors;
use crate::diagnostics::StallCounts;
use crate::io::Placement;
use crate::metrics::Registered;
use crate::net::{Listener, bind};
use crate::program::{RunError, StartError};
use crate::scaling::Automatic;
use crate::shutdown::is_draining;

pub(crate) use custom::CustomPages;
pub use custom::{AdminRequest, AdminResponse};
pub(crate) use hosts::Hosts;

/// The maximum number of clients; further connections are closed.
const MAX_CONNECTIONS: usize = 64;

/// The sources of a snapshot's data.
pub(crate) struct Source {
    /// The number of the stage of these pages.
    pub(crate) stage: usize,
    pub(crate) control: Control,
    pub(crate) driver: DriverKind,
    pub(crate) epoch: Instant,
    /// A random number of this run.
    pub(crate) run: u64,
    pub(crate) system_calls: Vec<Arc<AtomicU64>>,
    pub(crate) stalls: Arc<StallCounts>,
    pub(crate) metrics: Registered,
    /// The program's own pages.
    pub(crate) pages: CustomPages,
    pub(crate) active: ActiveProcessors,
    pub(crate) placement: Arc<Placement>,
    /// `None` if automatic placement is off.
    pub(crate) automatic: Option<Arc<Automatic>>,
    /// Accepted host names.
    pub(crate) hosts: Hosts,
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
        let admin_error = |source| RunError::Admin { address, source };
        let listener = bind(address, 1).map_err(admin_error)?.remove(0);
        let address = listener.local_addr().map_err(admin_error)?;
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

    /// Starts accepting connections on the calling processor.
    pub(crate) fn start(&self) -> Result<(), StartError> {
        let listener = self.listener.lock().expect("not poisoned").take().expect("started once");
        let (listener, stage) = (Listener::new(listener)?, self.stage);
        stage.dispatch(move |_| accept(listener, stage))?;
        Ok(())
    }
}

/// Accepts connections until the program drains, and then ends them.
async fn accept(listener: Listener, stage: SharedStage<Arc<OnceLock<Source>>>) {
    let session = Session::new();
    loop {
        match listener.accept().await {
            Ok(stream) if session.operations() < MAX_CONNECTIONS => {
                let _ = session.scope(|| {
                    stage.dispatch(move |source| async move {
                        let source = source.get().expect("described before the start");
                        let _ = pages::serve(http::Connection::new(stream), source).await;
                    })
                });
            }
            Ok(_) => (),
            Err(_) if is_draining() => break,
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
    session.end().await;
}
