//! `phalanx broker` as its operator sees it: what it says when it is ready, when it is asked to read its configuration
//! again, and when it stops.

use std::io::Write;

use phalanx_broker::{Operator, Reloaded, Reloader, ServeError, Serving};

use crate::broker::Broker;
use crate::notify::Notify;

/// A broker that was started with these arguments.
pub(super) struct Service {
    broker: Broker,
    notify: Notify,
}

impl Service {
    pub(super) fn new(broker: Broker) -> Self {
        Self { broker, notify: Notify::of_environment() }
    }
}

impl Operator for Service {
    /// One line for each address, and at once: scripts wait for it. Nobody may be there to read it.
    fn ready(&self, serving: &Serving<'_>) {
        if let Some(fallback) = &serving.up.fallback {
            eprintln!("phalanx: {fallback}");
        }
        serving.doubts.iter().for_each(|doubt| eprintln!("phalanx: {doubt}"));
        if let Some(admin) = serving.up.admin {
            eprintln!("phalanx: look inside at http://{admin}/");
        }
        let mut stdout = std::io::stdout();
        for url in serving.urls() {
            let _ = writeln!(stdout, "listening on {url}");
        }
        let _ = stdout.flush();
        self.notify.ready();
    }

    fn reload(&self, reloader: &mut Reloader) {
        self.notify.reloading();
        let config = self.broker.load().map_err(ServeError::Config);
        match config.and_then(|config| reloader.reload(config)) {
            Ok(Reloaded { files, needs_restart, doubts, .. }) => {
                doubts.iter().for_each(|doubt| eprintln!("phalanx: {doubt}"));
                for key in needs_restart {
                    eprintln!("phalanx: {key}: has changed, and needs a restart to be followed");
                }
                let files = self.broker.file.config.iter().chain(&files);
                let files: Vec<_> = files.map(|path| path.display().to_string()).collect();
                match files.is_empty() {
                    true => eprintln!("phalanx: there is nothing to read again"),
                    false => eprintln!("phalanx: read again: {}", files.join(", ")),
                }
            }
            Err(error) => {
                error.to_string().lines().for_each(|line| eprintln!("phalanx: {line}"));
                eprintln!("phalanx: not read again: what was there before stays");
            }
        }
        self.notify.ready();
    }

    fn stopping(&self) {
        self.notify.stopping();
    }
}
