//! Operation of a server: reports readiness, and handles reloads and shutdown.

use std::path::PathBuf;

use phalanx_config::ConfigError;
use phalanx_service::{Operator, Reload, Serving};

use crate::settings;
use crate::status::{self, StatusReporter};

/// A server whose configuration `load` reads.
pub(crate) struct Service<L> {
    /// The configuration file, if any.
    config: Option<PathBuf>,
    load: L,
    status: StatusReporter,
}

impl<L> Service<L> {
    pub(crate) fn new(config: Option<PathBuf>, load: L) -> Self {
        Self { config, load, status: StatusReporter::from_environment() }
    }
}

impl<R, L> Operator<R> for Service<L>
where
    R: Reload,
    L: Fn() -> Result<R::Config, Vec<ConfigError>> + Send + Sync + 'static,
{
    fn ready(&self, serving: &Serving<'_>) {
        self.status.ready(serving);
    }

    fn reload(&self, reloader: &mut R) {
        self.status.reload(self.config.as_deref(), || {
            let config = (self.load)().map_err(|errors| settings::report(&errors))?;
            reloader.reload(config).map_err(status::print)
        });
    }

    fn stopping(&self) {
        self.status.stopping();
    }
}
