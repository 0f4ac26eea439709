//! Status messages of the servers on stdout and stderr and to systemd: ready, reloaded, stopping. All servers use
//! the same format, on which scripts rely.

use std::io::Write;
use std::path::{Path, PathBuf};

use phalanx::runtime::report;
use phalanx_service::{Reloaded, Serving};
use sd_notify::{NotifyState, notify};

/// Notifies the service manager that the environment names. Failures to send are ignored.
fn notify_manager(states: &[NotifyState<'_>]) {
    let _ = notify(states);
}

/// Reports that the server is ready.
pub(crate) fn ready(Serving { urls, warnings, up, .. }: &Serving<'_>) {
    up.fallback.iter().for_each(report);
    warnings.iter().for_each(report);
    if let Some(admin) = up.admin {
        report(format_args!("admin page at http://{admin}/"));
    }
    listening(urls);
    notify_manager(&[NotifyState::Ready]);
}

/// Reloads the configuration by calling `reload`, which prints the reasons if it fails. `config` is the
/// configuration file.
pub(crate) fn reload(config: Option<&Path>, reload: impl FnOnce() -> Result<Reloaded, ()>) {
    // The time stamp is required by systemd to distinguish reloads.
    let time = NotifyState::monotonic_usec_now().ok();
    notify_manager(&[NotifyState::Reloading].into_iter().chain(time).collect::<Vec<_>>());
    match reload() {
        Ok(Reloaded { warnings, needs_restart, added, version, files }) => {
            warnings.iter().for_each(report);
            for key in needs_restart {
                report(format_args!("{key}: changed; restart to apply"));
            }
            listening(&added);
            let files = config.into_iter().chain(files.iter().map(PathBuf::as_path));
            let files: Vec<_> = files.map(|path| path.display().to_string()).collect();
            report(match version {
                Some(version) => format!("reloaded; configuration version {version}"),
                None if files.is_empty() => "reloaded: no files to read".to_owned(),
                None => format!("reloaded: {}", files.join(", ")),
            });
        }
        Err(()) => report("not reloaded; the old configuration remains in effect"),
    }
    notify_manager(&[NotifyState::Ready]);
}

/// Reports that the server is shutting down.
pub(crate) fn stopping() {
    notify_manager(&[NotifyState::Stopping]);
}

/// Prints a line per address and flushes, since scripts wait for it. Errors are ignored: stdout may be closed.
fn listening(urls: &[String]) {
    let mut stdout = std::io::stdout();
    for url in urls {
        let _ = writeln!(stdout, "listening on {url}");
    }
    let _ = stdout.flush();
}
