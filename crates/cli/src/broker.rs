//! `phalanx broker`: an MQTT broker.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use phalanx::runtime::report;
use phalanx_broker::{
    Config, ConfigError, Inherited, Listen, OpenError, RuntimeConfig, Scheme, ServeError, operate,
};

use crate::import::{import, is_of_mosquitto};
use crate::options::Options;
use crate::server::{Server, usage};
use crate::service::Service;
use crate::stdout;

/// Run a broker for MQTT 5 and 3.1.1.
///
/// When ready, it prints a line per address to stdout: `listening on mqtt://ADDR:PORT`, or mqtts, ws, wss. SIGHUP
/// reloads the configuration and the files it names; if they contain an error, the old ones remain in effect.
/// SIGINT (Ctrl-C) or SIGTERM shuts down gracefully: clients are notified; a second signal ends the broker at
/// once.
///
/// Without --persistence-dir, state is in memory and lost on exit, and the broker logs a warning.
///
/// Precedence: flag, environment variable, --set, file of --config, default.
///
/// Exit codes: 0 after a requested shutdown; 1 when an address or a file is unavailable, or the journal cannot be read
/// or written; 2 for bad arguments or an invalid configuration; 70 when an operation or a blocking call did not end
/// after the shutdown; 75 when another node of the cluster has adopted this node's sessions. With
/// --check-persistence-dir: 0 if the directory is sound, 1 if it is not, 2 if it cannot be read.
#[derive(Args)]
pub(crate) struct Broker {
    #[command(flatten)]
    options: Options<Config>,

    /// Start with the data on disk even if acknowledged data was lost: the end of the journal or the whole journal is
    /// missing, or NATS has later changes of kept sessions. Use it for a single start; without it, the broker reports
    /// the loss and does not start.
    #[arg(long)]
    accept_loss: bool,

    /// Translate a mosquitto configuration, print the result on stdout and exit. Options that are not translated are
    /// listed on stderr, with their lines.
    #[arg(long, value_name = "mosquitto.conf")]
    import: Option<PathBuf>,

    /// Check the persistence directory of a stopped broker, print a summary and exit. Changes nothing.
    #[arg(long, value_name = "path")]
    check_persistence_dir: Option<PathBuf>,
}

impl Broker {
    pub(crate) fn run(self) -> ExitCode {
        if let Some(path) = &self.import {
            return import(path);
        }
        let config = self.options.file.config.as_deref();
        if let Some(path) = config.filter(|path| is_of_mosquitto(path)) {
            let path = path.display();
            report(format_args!(
                "{path} is a configuration of mosquitto; translate it: phalanx broker --import {path} > broker.toml"
            ));
            return ExitCode::from(2);
        }
        if let Some(path) = &self.check_persistence_dir {
            let excluded = ["persistence-dir", "ephemeral"];
            if let Some(reason) = self.options.conflict("--check-persistence-dir", &excluded) {
                return usage(&reason);
            }
            return check(path);
        }
        self.options.run(|config| {
            config.accept_loss = self.accept_loss;
            if config.persistence_dir.is_none() && !config.ephemeral {
                report(
                    "sessions and messages are in memory and lost on exit; set --persistence-dir DIR to store them, or \
                     --ephemeral to disable this warning",
                );
            }
        })
    }
}

/// The exit code of a node whose sessions another node has adopted: start it again (`EX_TEMPFAIL`).
const ADOPTED: u8 = 75;

impl Server for Config {
    const COMMAND: &'static str = "broker";
    type Scheme = Scheme;
    type Error = ServeError;

    fn parts(&mut self) -> (&mut Vec<Listen>, &mut RuntimeConfig) {
        (&mut self.listen, &mut self.runtime)
    }

    fn check(&self, _: &HashMap<String, String>) -> Vec<ConfigError> {
        self.check()
    }

    fn unavailable(&self) -> Vec<String> {
        self.unavailable()
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings()
    }

    fn exit_code(error: &ServeError) -> ExitCode {
        match error {
            ServeError::Adopted(_) => ExitCode::from(ADOPTED),
            _ => ExitCode::FAILURE,
        }
    }

    fn operate(
        self,
        inherited: Inherited<Scheme>,
        service: Arc<Service<Self>>,
    ) -> Result<(), ServeError> {
        operate(self, inherited, service)
    }
}

/// Checks a persistence directory and prints a summary.
fn check(path: &Path) -> ExitCode {
    match phalanx_broker::check_persistence_dir(path) {
        // A wrong directory must not be mistaken for a valid backup.
        Ok(checked) if checked.segments == 0 => {
            let message = "contains no journal: no broker has stored data there";
            report(format_args!("{}: {message}", path.display()));
            ExitCode::from(2)
        }
        Ok(checked) => stdout::print(checked),
        Err(error) => {
            report(&error);
            match error {
                ServeError::Open(OpenError::Corrupt { .. } | OpenError::Lost(_))
                | ServeError::Unknown { .. } => ExitCode::FAILURE,
                _ => ExitCode::from(2),
            }
        }
    }
}
