//! From a configuration to a server that runs, and back.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use phalanx::fs::Dir;
use phalanx::net::{Listener, Listeners};
use phalanx::{CallError, Graph, RunError, Start, Up};

use crate::config::Config;
use crate::connection::accept::accept;
use crate::stages::{Site, Stages};

/// Why a directory cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// There is no such directory, or it may not be read.
    #[error("cannot serve {}: {source}", path.display())]
    Root {
        /// As configured.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The address is taken, or is none of this machine.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// As configured.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The runtime failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// A server that is up.
pub struct Serving<'a> {
    /// Where it listens.
    pub address: SocketAddr,
    /// What the runtime says.
    pub up: &'a Up,
}

/// The server's stages in a graph: what [`serve`] runs, for a program of one's own and for
/// simulations.
#[derive(Clone)]
pub struct Server {
    site: Arc<Site>,
    stages: Stages,
}

impl Server {
    /// Declares the server's stages as the next of `graph`. Files come from `root`, and not from
    /// the root that `config` names; what it says of the runtime is for [`serve`].
    pub fn declare(graph: &mut Graph, config: &Config, root: Dir) -> Self {
        let site = Site::new(config, root);
        Self { stages: Stages::declare(graph, config, &site), site }
    }

    /// Begins to accept on this processor, until the program drains.
    ///
    /// # Errors
    /// When the operation that accepts is refused.
    pub fn accept(&self, listener: Listener) -> Result<(), CallError> {
        let Self { site, stages } = self.clone();
        self.stages.network.dispatch(move |_| accept(listener, stages, site))
    }
}

/// Serves until the process is asked to end, or until [`Up::control`] is; then finishes what is
/// under way. `ready` is called once connections are accepted.
///
/// # Errors
/// [`ServeError`]; when the server was up before, only `Run`.
pub fn serve(config: Config, ready: impl FnOnce(&Serving<'_>)) -> Result<(), ServeError> {
    let root = Dir::open(&config.root)
        .map_err(|source| ServeError::Root { path: config.root.clone(), source })?;
    let listeners = Listeners::bind(config.listen, config.processors)
        .map_err(|source| ServeError::Listen { address: config.listen, source })?;

    let mut graph = Graph::new();
    let server = Server::declare(&mut graph, &config, root);
    let start = |start: &Start| {
        server.accept(listeners.listener(start)?)?;
        Ok(())
    };
    let runtime = config.runtime.processors(config.processors);
    runtime.run_and(graph, start, |up| ready(&Serving { address: listeners.local_addr(), up }))?;
    Ok(())
}
