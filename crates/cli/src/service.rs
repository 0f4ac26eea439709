//! Operation of `phalanx web`: reports readiness, handles reloads and shutdown.

use phalanx_web::{Listen, Operator, Reloaded, Reloader, ServeError, Serving};

use crate::status::{ReloadReport, StatusReporter};
use crate::web::Web;

/// A server started with these arguments.
pub(crate) struct Service {
    web: Web,
    /// Listening sockets inherited from the parent process, which replace configured addresses.
    given: Option<Vec<Listen>>,
    status: StatusReporter,
}

impl Service {
    pub(crate) fn new(web: Web, given: Option<Vec<Listen>>) -> Self {
        Self { web, given, status: StatusReporter::from_environment() }
    }
}

impl Operator for Service {
    fn ready(&self, serving: &Serving<'_>) {
        self.status.ready(serving.up, serving.warnings, serving.urls());
    }

    fn reload(&self, reloader: &mut Reloader) {
        let read = || {
            let config = self.web.load(self.given.as_deref()).map_err(ServeError::Config)?;
            let Reloaded { version, added, needs_restart, warnings } = reloader.reload(config)?;
            let done = format!("reloaded; configuration version {version}");
            Ok::<_, ServeError>(ReloadReport { warnings, needs_restart, added, done })
        };
        self.status.reload(read, "not reloaded; the old configuration remains in effect");
    }

    fn stopping(&self) {
        self.status.stopping();
    }
}
