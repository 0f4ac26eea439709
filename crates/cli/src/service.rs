//! `phalanx web` as its operator sees it: what it says when it is ready, when it is asked to read its
//! configuration again, and when it stops.

use std::io::Write;

use phalanx_web::{Listen, Operator, Reloaded, Reloader, ServeError, Serving};

use crate::notify::Notify;
use crate::web::Web;

/// A server that was started with these arguments.
pub(crate) struct Service {
    web: Web,
    /// Where it listens, if that was decided by whoever started it.
    given: Option<Vec<Listen>>,
    notify: Notify,
}

impl Service {
    pub(crate) fn new(web: Web, given: Option<Vec<Listen>>) -> Self {
        Self { web, given, notify: Notify::of_environment() }
    }
}

impl Operator for Service {
    fn ready(&self, serving: &Serving<'_>) {
        if let Some(fallback) = &serving.up.fallback {
            eprintln!("phalanx: {fallback}");
        }
        for doubt in serving.doubts {
            eprintln!("phalanx: {doubt}");
        }
        if let Some(admin) = serving.up.admin {
            eprintln!("phalanx: look inside at http://{admin}/");
        }
        listening(serving.urls());
        self.notify.ready();
    }

    fn reload(&self, reloader: &mut Reloader) {
        self.notify.reloading();
        let config = self.web.load(self.given.as_deref()).map_err(ServeError::Config);
        match config.and_then(|config| reloader.reload(config)) {
            Ok(Reloaded { version, added, needs_restart, doubts, .. }) => {
                doubts.iter().for_each(|doubt| eprintln!("phalanx: {doubt}"));
                for key in needs_restart {
                    eprintln!("phalanx: {key}: has changed, and needs a restart to be followed");
                }
                listening(added.into_iter());
                eprintln!("phalanx: reloaded: this is version {version} of the configuration");
            }
            Err(error) => {
                error.to_string().lines().for_each(|line| eprintln!("phalanx: {line}"));
                eprintln!("phalanx: not reloaded: the configuration from before stays");
            }
        }
        self.notify.ready();
    }

    fn stopping(&self) {
        self.notify.stopping();
    }
}

/// One line for each, and at once: scripts wait for it. Nobody may be there to read it.
fn listening(urls: impl Iterator<Item = String>) {
    let mut stdout = std::io::stdout();
    for url in urls {
        let _ = writeln!(stdout, "listening on {url}");
    }
    let _ = stdout.flush();
}
