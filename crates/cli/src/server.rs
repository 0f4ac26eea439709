//! A server: its configuration from files, flags and environment variables, and its operation.

use std::collections::HashMap;
use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use phalanx::runtime::report;
use phalanx_config::{ConfigError, Keys, Origins, declarations, read, read_given, table};
use phalanx_service::{Inherited, Listen, RuntimeConfig, Scheme};

use crate::files;
use crate::options::Options;
use crate::service::Service;
use crate::stdout;

/// The configuration of a server.
pub(crate) trait Server: Keys + Clone + Default + Send + Sync + 'static {
    /// The name of its command.
    const COMMAND: &'static str;
    /// The protocols of its addresses.
    type Scheme: Scheme;
    /// Error of the running server.
    type Error: Display;

    /// The listen addresses and the settings of the runtime.
    fn parts(&mut self) -> (&mut Vec<Listen<Self::Scheme>>, &mut RuntimeConfig);

    /// Errors that can be found without opening a file. `given` contains the keys that flags or variables set.
    fn check(&self, given: &HashMap<String, String>) -> Vec<ConfigError>;

    /// Files and directories in the configuration that are unavailable.
    fn unavailable(&self) -> Vec<String>;

    /// Warnings about certificates and passwords.
    fn warnings(&self) -> Vec<String>;

    /// The next step for each automatic certificate.
    fn steps(&self) -> Vec<String> {
        Vec::new()
    }

    /// The exit code for an error of the running server.
    fn exit_code(_: &Self::Error) -> ExitCode {
        ExitCode::FAILURE
    }

    /// Runs the server to its end.
    fn operate(
        self,
        inherited: Inherited<Self::Scheme>,
        service: Arc<Service<Self>>,
    ) -> Result<(), Self::Error>;
}

impl<C: Server> Options<C> {
    /// Runs the server, or checks or prints its configuration. `adjust` receives the initial configuration.
    pub(crate) fn run(self, adjust: impl FnOnce(&mut C)) -> ExitCode {
        let inherited = match Inherited::of_environment() {
            Ok(inherited) => inherited,
            Err(error) => return fail(error),
        };
        let inherited_addresses = inherited.listen();
        let mut config = match self.load(inherited_addresses.as_deref()) {
            Ok(config) => config,
            Err(errors) => {
                errors.iter().for_each(report);
                return ExitCode::from(2);
            }
        };
        if self.file.print_config {
            return print(&config);
        }
        if self.file.check {
            let unavailable = config.unavailable();
            let steps = if unavailable.is_empty() { config.steps() } else { Vec::new() };
            let steps: String = steps.iter().map(|step| format!("{step}\n")).collect();
            let printed = stdout::print(steps);
            config.warnings().iter().chain(&unavailable).for_each(report);
            return if unavailable.is_empty() { printed } else { ExitCode::FAILURE };
        }
        adjust(&mut config);
        phalanx::runtime::raise_open_files();
        match config.operate(inherited, Arc::new(Service::new(self, inherited_addresses))) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                report(&error);
                C::exit_code(&error)
            }
        }
    }

    /// The configuration from the file, --set, the environment and the flags. `inherited_addresses`, if any, replace
    /// all addresses.
    ///
    /// # Errors
    /// All errors of all sources; if there are none, all semantic errors.
    pub(crate) fn load(
        &self,
        inherited_addresses: Option<&[Listen<C::Scheme>]>,
    ) -> Result<C, Vec<ConfigError>> {
        let (mut config, mut origins, mut errors) = (C::default(), Origins::default(), Vec::new());
        config.parts().1.workers = self.cores.min(1024);
        let base = Path::new("");
        if let Some(path) = &self.file.config {
            errors.extend(files::read(&mut config, path, &mut origins, &self.pipes).err());
        }
        for set in &self.file.set {
            // The origin does not include the value, which may be a secret.
            let key = set.lines().next().unwrap_or_default().split('=').next().unwrap_or_default();
            let origin = format!("--set {}", key.trim_end());
            errors.extend(read(&mut config, set, &origin, base, &mut origins).err());
        }
        for (_, origin) in origins.take_includes() {
            let message = "only a configuration file can include others; use --config";
            errors.push(vec![ConfigError::new(&origin, "include", message)]);
        }
        errors
            .extend(read_given(&mut config, &self.given, &self.origins_by_key, &mut origins).err());
        if let Some(addresses) = inherited_addresses {
            *config.parts().0 = addresses.to_vec();
        }
        if errors.is_empty() {
            let semantic_errors = config.check(&self.origins_by_key);
            errors.push(semantic_errors.into_iter().map(|error| error.located(&origins)).collect());
        }
        let keys = declarations(&mut C::default());
        let flag = |key: &str| keys.iter().find(|known| known.key == key)?.flag.clone();
        let errors = errors.concat().into_iter().map(|error| error.with_flags(flag));
        let errors: Vec<_> = errors.collect();
        if errors.is_empty() { Ok(config) } else { Err(errors) }
    }
}

/// Reports invalid arguments, and returns the exit code.
pub(crate) fn usage(reason: &str) -> ExitCode {
    report(format_args!("{reason}; see --help"));
    ExitCode::from(2)
}

/// Prints an error, and returns the exit code of a failure.
fn fail(error: impl Display) -> ExitCode {
    report(error);
    ExitCode::FAILURE
}

/// Prints a configuration that is independent of the current directory.
fn print<C: Server>(config: &C) -> ExitCode {
    let mut absolute = C::default();
    let read = std::env::current_dir().map_err(|error| error.to_string()).and_then(|base| {
        let text = table(config).to_string();
        read(&mut absolute, &text, "configuration", &base, &mut Origins::default())
            .map_err(|errors| errors.iter().map(ConfigError::to_string).collect())
    });
    match read {
        Ok(()) => stdout::print(table(&absolute)),
        Err(reason) => fail(format_args!("cannot print the configuration: {reason}")),
    }
}
