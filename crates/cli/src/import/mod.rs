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
use phalanx_config::changes;

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
    changes(config, &Config::default()).to_string()
}

#[cfg(test)]
mod tests {
    use phalanx_config::{Origins, table};

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
    /// Also in the tables of listeners and bridges.
    #[test]
    fn only_the_keys_that_differ_from_the_defaults_are_printed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "max_packet_size 1000\nper_listener_settings true\nlistener 1883 127.0.0.1\nallow_anonymous true\n\
            listener 8883\ncertfile /c\nkeyfile /k\nlistener 8884\ncertfile /d\nkeyfile /l\nmax_connections 9\n\
            password_file /u\nconnection up\naddress a\nremote_clientid c\ntopic x/# out 1\ntopic y both\n\
            bridge_cafile /ca\nconnection down\naddress b\nremote_clientid down\ntopic # in\n";
        std::fs::write(file.path(), text).unwrap();
        let (config, _) = translate::translate(&reader::read(file.path()).unwrap());
        let read = |text: &str| {
            let mut read = Config::default();
            let origins = &mut Origins::default();
            phalanx_config::read(&mut read, text, "test", Path::new(""), origins).unwrap();
            read
        };
        let printed = super::text(&config);
        assert_eq!(read(&printed), config, "{printed}");
        assert_eq!(read(&table(&config).to_string()), config);
        let (_, tables) = printed.split_once("\n[[bridge]]\n").unwrap();
        let expected = "address = [\"mqtts://a:1883\"]\nname = \"up\"\nreconnect-delay = \"5s\"\n\
            remote-client-id = \"c\"\n\n[bridge.tls]\nca = \"/ca\"\n\n[[bridge.topic]]\npattern = \"x/#\"\nqos = 1\n\n\
            [[bridge.topic]]\ndirection = \"both\"\npattern = \"y\"\n\n[[bridge]]\naddress = [\"mqtt://b:1883\"]\n\
            name = \"down\"\nreconnect-delay = \"5s\"\nremote-client-id = \"down\"\n\n[[bridge.topic]]\n\
            direction = \"in\"\npattern = \"#\"\n\n[[listener]]\naddress = \"mqtt://127.0.0.1:1883\"\n\
            allow-anonymous = true\n\n[[listener]]\naddress = \"mqtts://[::]:8884\"\nmax-connections = 9\n\
            password-file = \"/u\"\n\n[listener.tls]\ncertificate = \"/d\"\nkey = \"/l\"\n\n\
            [tls]\ncertificate = \"/c\"\nkey = \"/k\"\n";
        assert_eq!(tables, expected);
    }
}
