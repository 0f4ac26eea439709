//! Options common to the servers: the configuration file, and the runtime.

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;
use phalanx::runtime::DriverChoice;
use phalanx_config::{ConfigError, Origins};
use phalanx_service::RuntimeConfig;

use crate::status;

/// Source of the configuration, and commands for it.
#[derive(Args, Clone)]
pub(crate) struct FileArgs {
    /// Configuration file in TOML; docs/web/configuration.md and docs/broker/configuration.md list all keys.
    #[arg(long, short, value_name = "FILE", env)]
    pub(crate) config: Option<PathBuf>,

    /// Set a key of the configuration in the syntax of the file: `runtime.shutdown-timeout="5s"`, `health="/up"`.
    /// May be given several times.
    #[arg(long, value_name = "KEY=VALUE", env, value_delimiter = '\n')]
    set: Vec<String>,

    /// Check the configuration and the files it names (directories, certificates, password files), print all
    /// errors and exit: 0 if it is valid, 1 if a file is unavailable, 2 for errors.
    #[arg(long)]
    pub(crate) check: bool,

    /// Print the effective configuration as TOML and exit.
    #[arg(long)]
    pub(crate) print_config: bool,
}

impl FileArgs {
    /// Passes the file and then each --set to `read`: the text, its name, and the base of its relative paths.
    pub(crate) fn read(
        &self,
        mut read: impl FnMut(&str, &str, &Path) -> Result<(), Vec<ConfigError>>,
    ) -> Result<(), Vec<ConfigError>> {
        if let Some(path) = &self.config {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(path)
                .map_err(|error| vec![ConfigError::new(&name, "", &error.to_string())])?;
            read(&text, &name, path.parent().unwrap_or(Path::new("")))?;
        }
        self.set.iter().try_for_each(|set| read(set, &format!("--set {set}"), Path::new("")))
    }
}

/// Options of the runtime.
#[derive(Args, Clone)]
#[command(next_help_heading = "Runtime")]
pub(crate) struct RuntimeArgs {
    /// Number of workers: threads, each bound to a core. [default: one per core]
    #[arg(long, short, value_name = "N", env, value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,

    /// I/O driver: io_uring, or readiness (epoll, kqueue). `auto` uses io_uring if available. [default: auto]
    #[arg(long, value_name = "auto|uring|poll", env)]
    driver: Option<DriverChoice>,

    /// Serve live metrics at this address: an HTML page, /snapshot.json, /metrics and more. Loopback only, since
    /// they reveal details of the load. See also `phalanx top`.
    #[arg(long, value_name = "ADDR:PORT", env)]
    admin: Option<SocketAddr>,

    /// Allow a non-loopback --admin address.
    #[arg(long, requires = "admin", env, value_parser = yes_or_no())]
    admin_public: bool,

    /// Accept this host name in requests to the --admin address, as needed by Prometheus when it scrapes a
    /// service by name. May be given several times. [default: IP addresses and localhost only]
    #[arg(long, value_name = "NAME", env, value_delimiter = ',')]
    admin_host: Vec<String>,

    /// Maximum time in seconds to complete requests in progress at shutdown. [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86_400), env)]
    shutdown_timeout: Option<u64>,

    /// Maximum time in microseconds for which an idle worker polls before it sleeps. It polls for less if polling
    /// costs more processor time than it saves. 0 disables polling. [default: 20]
    #[arg(long, value_name = "MICROSECONDS", env)]
    spin: Option<u64>,

    /// Maximum time in microseconds for which an idle worker waits to batch events: less processor time, more
    /// latency; 1000 is a good value. It waits only if the load fills a batch within this time. 0 disables.
    /// [default: 0]
    #[arg(long, value_name = "MICROSECONDS", value_parser = clap::value_parser!(u64).range(0..=10_000), env)]
    batch_delay: Option<u64>,

    /// Report operations on stderr that run for longer than this without suspending, in milliseconds; 0 disables.
    /// [default: 100]
    #[arg(long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(0..=86_400_000), env)]
    stall_threshold: Option<u64>,

    /// Size of a core's second-level cache in bytes, which determines the cohort size; 0 detects it. [default: 0]
    #[arg(long, value_name = "BYTES", value_parser = phalanx_config::amount, env)]
    l2_cache_size: Option<usize>,

    /// Do not bind workers to cores.
    #[arg(long, env, value_parser = yes_or_no())]
    no_pin: bool,
}

impl RuntimeArgs {
    /// Sets defaults that depend on the machine: a worker per core.
    pub(crate) fn defaults(runtime: &mut RuntimeConfig) {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        runtime.workers = cores.min(1024);
    }

    /// Applies the options that are given.
    pub(crate) fn apply(&self, runtime: &mut RuntimeConfig, origins: &mut Origins) {
        set(&mut runtime.workers, self.workers.map(usize::from));
        set(&mut runtime.driver, self.driver);
        runtime.pin &= !self.no_pin;
        set(&mut runtime.spin, self.spin.map(Duration::from_micros));
        set(&mut runtime.batch_delay, self.batch_delay.map(Duration::from_micros));
        set(&mut runtime.shutdown_timeout, self.shutdown_timeout.map(Duration::from_secs));
        set(&mut runtime.stall_threshold, self.stall_threshold.map(Duration::from_millis));
        set(&mut runtime.l2_cache_size, self.l2_cache_size);
        if self.admin.is_some() {
            runtime.admin = self.admin;
            origins.record("runtime.admin", "--admin");
        }
        runtime.admin_public |= self.admin_public;
        if !self.admin_host.is_empty() {
            runtime.admin_hosts.clone_from(&self.admin_host);
            origins.record("runtime.admin-hosts", "--admin-host");
        }
    }
}

/// Parses the environment variable of a flag without value: `1`, `yes`, `on`, `true`, and their opposites.
pub(crate) fn yes_or_no() -> BoolishValueParser {
    BoolishValueParser::new()
}

/// Assigns `from` if it is given.
pub(crate) fn set<T>(to: &mut T, from: Option<T>) {
    if let Some(from) = from {
        *to = from;
    }
}

/// Prints configuration errors, one line each.
pub(crate) fn report(errors: &[ConfigError]) {
    errors.iter().for_each(status::print);
}

/// Prints configuration errors, and returns the exit code of an invalid configuration.
pub(crate) fn invalid(errors: &[ConfigError]) -> ExitCode {
    report(errors);
    ExitCode::from(2)
}

/// Prints a configuration that is independent of the current directory: `again` parses it once more with relative
/// paths based here, and returns the resulting text.
pub(crate) fn print(
    text: &str,
    again: impl FnOnce(&str, &Path) -> Result<String, Vec<ConfigError>>,
) -> ExitCode {
    let whole = std::env::current_dir().map_err(|error| error.to_string()).and_then(|here| {
        again(text, &here).map_err(|errors| errors.iter().map(ConfigError::to_string).collect())
    });
    match whole {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            status::print(format_args!("cannot print the configuration: {why}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints warnings and unavailable files.
pub(crate) fn check(warnings: &[String], missing: &[String]) -> ExitCode {
    warnings.iter().chain(missing).for_each(status::print);
    match missing.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
