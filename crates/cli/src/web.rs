//! `phalanx web`: serves a directory.

use std::collections::HashMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use phalanx::runtime::report;
use phalanx_config::declarations;
use phalanx_web::{
    Config, ConfigError, Inherited, Listen, MeasurementSettings, RuntimeConfig, Scheme, ServeError,
    operate,
};

use crate::options::Options;
use crate::server::{Server, usage};
use crate::service::Service;

/// Serve a directory of files over HTTP.
///
/// When ready, it prints a line per address to stdout: `listening on http://ADDR:PORT`. SIGINT (Ctrl-C) or
/// SIGTERM completes the requests in progress and exits; a second signal ends the server immediately. SIGHUP reloads
/// the configuration; if it contains an error, the old one remains in effect.
///
/// Precedence: flag, environment variable, --set, file of --config, default.
///
/// Exit codes: 0 after a requested shutdown; 1 when a directory or an address is unavailable; 2 for bad arguments or an
/// invalid configuration; 70 when an operation or a blocking call did not end after the shutdown.
#[derive(Args, Clone)]
pub(crate) struct Web {
    /// Directory to serve; same as --root. [default: .]
    directory: Option<PathBuf>,

    #[command(flatten)]
    measurement: MeasurementFlags,

    #[command(flatten)]
    options: Options<Config>,
}

/// Flags for `phalanx-bench`.
#[derive(Args, Clone, Copy)]
struct MeasurementFlags {
    #[arg(long, hide = true)]
    unbounded_cohorts: bool,
    #[arg(long, hide = true)]
    memory_budget: bool,
    #[arg(long, hide = true)]
    unpooled_buffers: bool,
}

impl Web {
    pub(crate) fn run(mut self) -> ExitCode {
        if let Some(directory) = self.directory {
            if !directory.exists() {
                explain_flag_value(&directory);
            }
            if let Some(reason) = self.options.conflict("DIRECTORY", &["host.root"]) {
                return usage(&reason);
            }
            let Some(path) = directory.to_str() else {
                return usage(&format!("DIRECTORY: {directory:?} is not UTF-8"));
            };
            self.options.set("host.root", "DIRECTORY".into(), path.into());
        }
        let MeasurementFlags { unbounded_cohorts, memory_budget, unpooled_buffers } =
            self.measurement;
        let measurement =
            MeasurementSettings { unbounded_cohorts, memory_budget, unpooled_buffers };
        self.options.run(|config| config.measurement = measurement)
    }
}

/// Explains a word that follows a flag and is taken for the directory, as in `--access-log combined`.
fn explain_flag_value(directory: &Path) {
    let next =
        env::args_os().skip(1).zip(env::args_os().skip(2)).find(|(_, next)| next == directory);
    let Some((previous, _)) = next else { return };
    let Some(flag) = previous.to_str().and_then(|previous| previous.strip_prefix("--")) else {
        return;
    };
    let keys = declarations(&mut Config::default());
    if !keys.iter().any(|key| key.flag.as_deref() == Some(flag)) {
        return;
    }
    let inner = keys.iter().filter_map(|key| key.flag.as_deref());
    let inner =
        inner.filter(|other| other.strip_prefix(flag).is_some_and(|rest| rest.starts_with('-')));
    let inner: String = inner.map(|other| format!(" or --{other}")).collect();
    report(format_args!(
        "{} is taken for DIRECTORY; to set a value, use --{flag}=VALUE{inner}",
        directory.display()
    ));
}

impl Server for Config {
    const COMMAND: &'static str = "web";
    type Scheme = Scheme;
    type Error = ServeError;

    fn parts(&mut self) -> (&mut Vec<Listen>, &mut RuntimeConfig) {
        (&mut self.listen, &mut self.runtime)
    }

    fn check(&self, given: &HashMap<String, String>) -> Vec<ConfigError> {
        let mut errors = self.check();
        let certificate = "host.tls.certificate";
        if given.contains_key(certificate) && !self.listen.iter().any(Listen::is_tls) {
            let message = "no address uses TLS; listen on https://ADDR:PORT";
            errors.push(ConfigError::for_key(certificate, message));
        }
        errors
    }

    fn unavailable(&self) -> Vec<String> {
        self.unavailable()
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings()
    }

    fn steps(&self) -> Vec<String> {
        self.steps()
    }

    fn operate(
        self,
        inherited: Inherited<Scheme>,
        service: Arc<Service<Self>>,
    ) -> Result<(), ServeError> {
        operate(self, inherited, service)
    }
}
