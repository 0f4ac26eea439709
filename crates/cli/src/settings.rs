//! How a server of the house is told what to do: by a file, by the environment and by flags. What is the same for all of
//! them: the flags that name a file, and those of the runtime.

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

/// Where the configuration is, and what becomes of it.
#[derive(Args, Clone)]
pub(crate) struct FileArgs {
    /// Read the configuration from this file, in TOML; docs/web/configuration.md and docs/broker/configuration.md
    /// have all keys.
    #[arg(long, short, value_name = "FILE", env)]
    pub(crate) config: Option<PathBuf>,

    /// Set a key of the configuration, as it would be written in the file: `runtime.shutdown-timeout="5s"`, `health="/up"`. May be
    /// given several times.
    #[arg(long, value_name = "KEY=VALUE", env, value_delimiter = '\n')]
    set: Vec<String>,

    /// Look whether the configuration is right and what it names is there (directories, certificates, files of
    /// passwords), tell of all that is wrong, and end: with 0 if nothing is, 1 if something cannot be had, 2 for
    /// errors.
    #[arg(long)]
    pub(crate) check: bool,

    /// Print the whole configuration as TOML, as it would be followed, and end.
    #[arg(long)]
    pub(crate) print_config: bool,
}

impl FileArgs {
    /// Has `read` read the file, then what --set says: each a text with its name and the place where its relative paths
    /// begin.
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

/// How a server is run.
#[derive(Args, Clone)]
#[command(next_help_heading = "How it is run")]
pub(crate) struct RuntimeArgs {
    /// How many processors: threads, each bound to a core. Default: one for each core.
    #[arg(long, short, value_name = "N", env, value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,

    /// How to reach the kernel: io_uring, or readiness (epoll, kqueue). `auto` takes io_uring where
    /// there is one. [default: auto]
    #[arg(long, value_name = "auto|uring|poll", env)]
    driver: Option<DriverChoice>,

    /// Show what the server does there, live, and serve /snapshot.json, /metrics and more; on the
    /// loopback only: they tell all about the load. See also `phalanx top`.
    #[arg(long, value_name = "ADDR:PORT", env)]
    admin: Option<SocketAddr>,

    /// Allow an --admin address that others can reach.
    #[arg(long, requires = "admin", env, value_parser = yes_or_no())]
    admin_public: bool,

    /// Answer at the --admin address under this host name too, as Prometheus needs it that scrapes by a service's name.
    /// May be given several times. [default: IP addresses and localhost only]
    #[arg(long, value_name = "NAME", env, value_delimiter = ',')]
    admin_host: Vec<String>,

    /// Seconds to finish what is under way after a signal, before it is ended. [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86_400), env)]
    shutdown_timeout: Option<u64>,

    /// Microseconds for which an idle processor polls before it sleeps, at most. It polls for less where that would
    /// cost more processor time than the sleeps it saves. 0 never polls. [default: 20]
    #[arg(long, value_name = "MICROSECONDS", env)]
    spin: Option<u64>,

    /// Microseconds that a processor without work may wait for more than one thing to come, so that
    /// work is done in larger cohorts and costs less, at the price of latency: 1000 is a
    /// good value. Waits only where the load fills a cohort within this time. 0 never waits.
    /// [default: 0]
    #[arg(long, value_name = "MICROSECONDS", value_parser = clap::value_parser!(u64).range(0..=10_000), env)]
    batch_delay: Option<u64>,

    /// Milliseconds after which an operation that does not suspend is told on stderr; 0 for never.
    /// [default: 100]
    #[arg(long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(0..=86_400_000), env)]
    stall_threshold: Option<u64>,

    /// Bytes of a core's second-level cache, by which the runtime chooses the size of cohorts; 0 for
    /// what the machine says. [default: 0]
    #[arg(long, value_name = "BYTES", value_parser = phalanx_config::amount, env)]
    l2_cache_size: Option<usize>,

    /// Do not bind processors to cores.
    #[arg(long, env, value_parser = yes_or_no())]
    no_pin: bool,
}

impl RuntimeArgs {
    /// What is so where nobody says anything: a processor for each core.
    pub(crate) fn defaults(runtime: &mut RuntimeConfig) {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        runtime.workers = cores.min(1024);
    }

    /// Sets what was asked for; what was not stays.
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

/// What a flag without a value may be in the environment: `1`, `yes`, `on`, `true`, and their opposites.
pub(crate) fn yes_or_no() -> BoolishValueParser {
    BoolishValueParser::new()
}

/// Sets what is there.
pub(crate) fn set<T>(to: &mut T, from: Option<T>) {
    if let Some(from) = from {
        *to = from;
    }
}

/// Tells of mistakes, as many as there are.
pub(crate) fn mistaken(errors: &[ConfigError]) -> ExitCode {
    errors.iter().for_each(status::print);
    ExitCode::from(2)
}

/// Prints a configuration such that it means the same wherever it is read from: `again` reads it once more with
/// relative paths beginning here, and gives what that comes to.
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
            status::print(format_args!("the configuration cannot be printed: {why}"));
            ExitCode::FAILURE
        }
    }
}

/// Tells what a configuration names and is not there, and what else there is to say.
pub(crate) fn check(warnings: &[String], missing: &[String]) -> ExitCode {
    warnings.iter().chain(missing).for_each(status::print);
    match missing.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
