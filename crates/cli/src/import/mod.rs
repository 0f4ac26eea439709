//! `phalanx broker --import`: translates a mosquitto configuration, and lists the options that it does not translate.
//!
//! | file | contents |
//! |---|---|
//! | `reader.rs` | the lines of the file and of the files it includes |
//! | `notes.rs` | options that are not translated, each with the reason |
//! | `listener.rs` | a listener with its TLS |
//! | `listeners.rs` | all listeners |
//! | `bridges.rs` | bridges |
//! | `packet_size.rs` | the limits on the size of messages |
//! | `translate.rs` | all other options |

mod bridges;
mod listener;
mod listeners;
mod notes;
mod packet_size;
mod reader;
mod translate;

use std::path::Path;
use std::process::ExitCode;

use phalanx::runtime::report;
use phalanx_broker::Config;
use phalanx_config::table;

use crate::stdout;

/// The reason why an option is left out that mosquitto does not have.
const UNKNOWN: &str = "unknown option";

/// Translates `path`: prints the configuration on stdout, and the options that are not translated on stderr.
pub(crate) fn import(path: &Path) -> ExitCode {
    let settings = match reader::read(path) {
        Ok(settings) => settings,
        Err(error) => {
            report(error);
            return ExitCode::from(2);
        }
    };
    let (config, notes) = translate::translate(&settings);
    notes.lines().for_each(report);
    let head = format!("# Translated by `phalanx broker --import {}`.\n\n", path.display());
    let printed = stdout::print(head + &text(&config));
    let errors = config.check();
    errors.iter().for_each(report);
    let unavailable = if errors.is_empty() { config.unavailable() } else { Vec::new() };
    unavailable.iter().for_each(report);
    report(notes.summary(settings.len()));
    if errors.is_empty() { printed } else { ExitCode::from(2) }
}

/// Whether a file is a configuration of mosquitto instead of this broker: its first line is an option of mosquitto.
pub(crate) fn is_of_mosquitto(path: &Path) -> bool {
    let settings = if path.is_file() { reader::lines(path) } else { Ok(Vec::new()) };
    let Some(first) = settings.ok().and_then(|all| all.into_iter().next()) else { return false };
    let (_, notes) = translate::translate(std::slice::from_ref(&first));
    let is_option =
        first.key == "include_dir" || !notes.lines().any(|line| line.ends_with(UNKNOWN));
    is_option && !first.value.starts_with('=')
}

/// The keys that differ from the defaults.
fn text(config: &Config) -> String {
    let (mut table, defaults) = (table(config), table(&Config::default()));
    table.retain(|key, value| defaults.get(key) != Some(value));
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The configuration that `text` is translated to, and the notes without the name of the file.
    pub(super) fn translated(text: &str) -> (String, Vec<String>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let (config, notes) = translate::translate(&reader::read(file.path()).unwrap());
        let name = format!("{}:", file.path().display());
        let lines = notes.lines().map(|line| line.replace(&name, "")).collect();
        (super::text(&config), lines)
    }
}
