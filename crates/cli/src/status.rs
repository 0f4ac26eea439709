//! What a server of the house says to whoever has started it, on stdout and stderr and to systemd: when it is ready, when
//! it has read its configuration again, when it stops. The same for all of them, so that scripts and people find it.

use std::fmt::Display;
use std::io::Write;

use phalanx::runtime::Started;

use crate::notify::Notify;

/// Says it.
pub(crate) struct StatusReporter(Notify);

/// What has come of reading a configuration again.
pub(crate) struct ReloadReport {
    /// What somebody should know, one line each.
    pub(crate) warnings: Vec<String>,
    /// Keys that have changed and are not followed.
    pub(crate) needs_restart: Vec<String>,
    /// Where it listens now and did not before.
    pub(crate) added: Vec<String>,
    /// What has been done, as a line.
    pub(crate) done: String,
}

impl StatusReporter {
    /// To systemd, if that is who has started it.
    pub(crate) fn from_environment() -> Self {
        Self(Notify::from_environment())
    }

    /// It does what it is there for, at `urls`.
    pub(crate) fn ready(
        &self,
        up: &Started,
        warnings: &[String],
        urls: impl Iterator<Item = String>,
    ) {
        up.fallback.iter().chain(warnings).for_each(print);
        if let Some(admin) = up.admin {
            print(format_args!("look inside at http://{admin}/"));
        }
        listening(urls);
        self.0.ready();
    }

    /// Has `read` read the configuration again; `refused` is said where that failed.
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
                    print(format_args!("{key}: has changed, and needs a restart to be followed"));
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

    /// It is about to end.
    pub(crate) fn stopping(&self) {
        self.0.stopping();
    }
}

/// Says something on stderr: each line of it names the program.
pub(crate) fn print(what: impl Display) {
    what.to_string().lines().for_each(|line| eprintln!("phalanx: {line}"));
}

/// One line for each, and at once: scripts wait for it. Nobody may be there to read it.
fn listening(urls: impl Iterator<Item = String>) {
    let mut stdout = std::io::stdout();
    for url in urls {
        let _ = writeln!(stdout, "listening on {url}");
    }
    let _ = stdout.flush();
}
