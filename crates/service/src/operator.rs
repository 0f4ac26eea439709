//! The interface between a running server and its operator.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use phalanx::runtime::Started;

use crate::sighup::SighupHandler;

/// A running server.
pub struct Serving<'a> {
    /// Bound addresses of the network, in the order of the configuration.
    pub addresses: &'a [SocketAddr],
    /// URLs of the server, such as `https://127.0.0.1:8443`, in the order of the configuration.
    pub urls: &'a [String],
    /// Warnings about certificates and passwords, one line each.
    pub warnings: &'a [String],
    /// Startup report of the runtime.
    pub up: &'a Started,
}

/// Replaces the configuration of a running server.
pub trait Reload: Send + 'static {
    /// The server's configuration.
    type Config;
    /// The reason why nothing changed.
    type Error: Display;

    /// Checks `new`, opens the files it names, and applies all settings that need no restart. May block.
    ///
    /// # Errors
    /// If the configuration is invalid, or a file or address is unavailable. Then nothing changes.
    fn reload(&mut self, new: Self::Config) -> Result<Reloaded, Self::Error>;
}

/// Result of a successful reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reloaded {
    /// URLs of new addresses.
    pub added: Vec<String>,
    /// Keys that have changed and take effect only after a restart.
    pub needs_restart: Vec<String>,
    /// Warnings about certificates and passwords, one line each.
    pub warnings: Vec<String>,
    /// Version of the configuration, if the server counts them; the initial one is 1.
    pub version: Option<u64>,
    /// The files that were read.
    pub files: Vec<PathBuf>,
}

/// Observer of a server's life, which supplies a new configuration at SIGHUP. Its methods are not called on a
/// processor and may block.
pub trait Operator<R>: Send + Sync + 'static {
    /// The server accepts connections.
    fn ready(&self, serving: &Serving<'_>);

    /// SIGHUP was received: read the configuration again, pass it to the reloader, and report the result. A
    /// further SIGHUP waits until this returns.
    fn reload(&self, reloader: &mut R);

    /// The server is shutting down: it finishes the work in progress and accepts no more.
    fn stopping(&self) {}
}

/// Passes each SIGHUP to the operator, together with `reloader`, until the handler is dropped. Returns `None`
/// if the system cannot create the thread; the server then ignores SIGHUP.
pub fn reload_at_sighup<R: Send + 'static>(
    operator: Arc<dyn Operator<R>>,
    mut reloader: R,
) -> Option<SighupHandler> {
    let stopping = operator.clone();
    SighupHandler::spawn(move || operator.reload(&mut reloader), move || stopping.stopping())
}
