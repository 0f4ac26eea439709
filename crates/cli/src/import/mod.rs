//! `phalanx broker --import`: translates a mosquitto configuration, and lists the options that it does not translate.
//!
//! | file | contents |
//! |---|---|
//! | `reader.rs` | the lines of the file and of the files it includes |
//! | `notes.rs` | options that are not translated, each with the reason |
//! | `listeners.rs` | listeners and their TLS |
//! | `bridges.rs` | bridges |
//! | `packet_size.rs` | the limits on the size of messages |
//! | `translate.rs` | all other options |

mod bridges;
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

/// The keys that differ from the defaults.
fn text(config: &Config) -> String {
    let (mut table, defaults) = (table(config), table(&Config::default()));
    table.retain(|key, value| defaults.get(key) != Some(value));
    table.to_string()
}
