//! Operation of `phalanx broker`: reports readiness, handles reloads and shutdown.

use phalanx_broker::{Operator, Reloaded, Reloader, ServeError, Serving};

use crate::broker::Broker;
use crate::status::{ReloadReport, StatusReporter};

/// A broker started with these arguments.
pub(super) struct Service {
    broker: Broker,
    status: StatusReporter,
}

impl Service {
    pub(super) fn new(broker: Broker) -> Self {
        Self { broker, status: StatusReporter::from_environment() }
    }
}

impl Operator for Service {
    fn ready(&self, serving: &Serving<'_>) {
        self.status.ready(serving.up, serving.warnings, serving.urls());
    }

    fn reload(&self, reloader: &mut Reloader) {
        let read = || {
            let config = self.broker.load().map_err(ServeError::Config)?;
            let Reloaded { files, needs_restart, warnings, .. } = reloader.reload(config)?;
            let files = self.broker.file.config.iter().chain(&files);
            let files: Vec<_> = files.map(|path| path.display().to_string()).collect();
            let done = match files.is_empty() {
                true => "reloaded: no files to read".to_owned(),
                false => format!("reloaded: {}", files.join(", ")),
            };
            Ok::<_, ServeError>(ReloadReport { warnings, needs_restart, added: Vec::new(), done })
        };
        self.status.reload(read, "not reloaded; the old configuration remains in effect");
    }

    fn stopping(&self) {
        self.status.stopping();
    }
}
