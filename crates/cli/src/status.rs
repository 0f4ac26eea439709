//! Status messages of the servers on stdout and stderr and to systemd: ready, reloaded, stopping. All servers use
//! the same format, on which scripts rely.

use std::fmt::Display;
use std::io::Write;

use phalanx::runtime::Started;

use crate::notify::Notify;

/// Prints status messages and notifies systemd.
pub(crate) struct StatusReporter(Notify);

/// Result of a reload.
pub(crate) struct ReloadReport {
    /// Warnings, one line each.
    pub(crate) warnings: Vec<String>,
    /// Changed keys that need a restart.
    pub(crate) needs_restart: Vec<String>,
    /// Newly added addresses.
    pub(crate) added: Vec<String>,
    /// A summary in one line.
    pub(crate) done: String,
}

impl StatusReporter {
    /// Reports to the service manager named in the environment, if any.
    pub(crate) fn from_environment() -> Self {
        Self(Notify::from_environment())
    }

    /// Reports that the server is ready at `urls`.
    pub(crate) fn ready(
        &self,
        up: &Started,
        warnings: &[String],
        urls: impl Iterator<Item = String>,
    ) {
        up.fallback.iter().chain(warnings).for_each(print);
        if let Some(admin) = up.admin {
            print(format_args!("admin page at http://{admin}/"));
        }
        listening(urls);
        self.0.ready();
    }

    /// Reloads the configuration by calling `read`. Prints `refused` if that fails.
    pub(crate) fn reload<E: Display>(
        &self,
        read: impl FnOnce() -> Result<ReloadReport, E>,
        refused: &str,
    ) {
        self.0.reloading();
        match read() {
            Ok(ReloadReport { warnings, needs_restart, added, done }) => {
                warnings.iter().for_each(print);
                for key in needs_restart {
                    print(format_args!("{key}: changed; restart to apply"));
                }
                listening(added.into_iter());
                print(done);
            }
            Err(error) => {
                print(error);
                print(refused);
            }
        }
        self.0.ready();
    }

    /// Reports that the server is shutting down.
    pub(crate) fn stopping(&self) {
        self.0.stopping();
    }
}

/// Prints a message to stderr, each line with the name of the program.
pub(crate) fn print(what: impl Display) {
    what.to_string().lines().for_each(|line| eprintln!("phalanx: {line}"));
}

/// Prints a line per address and flushes, since scripts wait for it. Errors are ignored: stdout may be closed.
fn listening(urls: impl Iterator<Item = String>) {
    let mut stdout = std::io::stdout();
    for url in urls {
        let _ = writeln!(stdout, "listening on {url}");
    }
    let _ = stdout.flush();
}
