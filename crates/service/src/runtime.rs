//! Runtime settings of a server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use phalanx::Runtime;
use phalanx::runtime::{DriverChoice, PlacementMode};
use phalanx_config::{ConfigError, Keys, Pass, Size, choices};

use crate::workers::Workers;

/// Runtime settings: workers, driver, shutdown and admin pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeConfig {
    /// Worker threads (processors), each with its own listening sockets: 1 to 1024.
    pub workers: usize,
    /// Minimum number of active workers, if `workers` is a range.
    pub min_workers: Option<usize>,
    /// Automatic placement.
    pub placement: PlacementChoice,
    /// The profile used by automatic placement.
    pub profile: Option<PathBuf>,
    /// I/O driver.
    pub driver: DriverChoice,
    /// Whether each worker is bound to a core.
    pub pin: bool,
    /// Longest time that an idle worker polls before it sleeps.
    pub spin: Duration,
    /// Longest time that an idle worker waits in order to batch events; zero disables batching.
    pub batch_delay: Duration,
    /// Time to finish work in progress at shutdown.
    pub shutdown_timeout: Duration,
    /// Run time above which an operation that does not suspend is reported on stderr; zero disables the
    /// report.
    pub stall_threshold: Duration,
    /// Size of a core's second-level cache in bytes, from which cohort sizes are derived; zero detects it.
    pub l2_cache_size: usize,
    /// Address of the admin pages.
    pub admin: Option<SocketAddr>,
    /// Whether other machines may reach the admin pages.
    pub admin_public: bool,
    /// Host names accepted by the admin pages, in addition to IP addresses and `localhost`.
    pub admin_hosts: Vec<String>,
    /// Whether signals end the program. Not a key of the configuration file.
    pub signals: bool,
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        Self {
            workers: 1,
            min_workers: None,
            placement: PlacementChoice::Auto,
            profile: None,
            driver: DriverChoice::Auto,
            pin: false,
            spin: phalanx::runtime::DEFAULT_SPIN,
            batch_delay: Duration::ZERO,
            shutdown_timeout: phalanx::runtime::DEFAULT_SHUTDOWN_TIMEOUT,
            stall_threshold: phalanx::runtime::DEFAULT_STALL_THRESHOLD,
            l2_cache_size: 0,
            admin: None,
            admin_public: false,
            admin_hosts: Vec::new(),
            signals: true,
        }
    }
}

/// Whether the number of active workers follows the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementChoice {
    /// On if `workers` is a range or there is a profile, otherwise off.
    Auto,
    /// No.
    Off,
    /// Placement only records what it would do.
    Advise,
    /// Yes.
    On,
}

/// TOML form of the choices.
struct Choices;

choices! {
    Choices as PlacementChoice:
        PlacementChoice::Auto = "auto",
        PlacementChoice::Off = "off",
        PlacementChoice::Advise = "advise",
        PlacementChoice::On = "on";
}

choices! {
    Choices as DriverChoice: DriverChoice::Auto = "auto", DriverChoice::Uring = "uring", DriverChoice::Poll = "poll";
}

impl Keys for RuntimeConfig {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        let Self {
            workers,
            min_workers,
            placement,
            profile,
            driver,
            pin,
            spin,
            batch_delay,
            shutdown_timeout,
            stall_threshold,
            l2_cache_size,
            admin,
            admin_public,
            admin_hosts,
            signals: _,
        } = self;
        pass.section("Runtime");
        let help = "number of workers: threads, each with its own listening sockets; from 1 to 1024, or a range such \
                    as \"1..8\", within which the number of active workers follows the load";
        let mut range = (min_workers.unwrap_or(*workers), *workers);
        pass.key_as::<Workers, _>("workers", &mut range, help);
        pass.default_is("one per core");
        (*min_workers, *workers) = ((range.0 < range.1).then_some(range.0), range.1);
        let help = "whether the number of active workers follows the load: on, off, advise (record what on would do), \
                    or auto: on if workers is a range or there is a profile";
        pass.key_as::<Choices, _>("placement", placement, help);
        let help = "file written by `phalanx profile`, from which placement chooses the number of active workers, \
                    spin and batch-delay";
        pass.key("profile", profile, help);
        let help = "kernel interface: io_uring, or poll (epoll, kqueue); auto uses io_uring unless it is missing or \
                    forbidden, and logs one line in that case";
        pass.key_as::<Choices, _>("driver", driver, help);
        pass.key(
            "pin",
            pin,
            "pin each worker to a separate core; for machines that run nothing else",
        );
        let help = "longest time that an idle worker polls before it sleeps; it polls less if polling costs more \
                    processor time than it saves";
        pass.range("spin", spin, Duration::ZERO..=SECOND, help);
        let help = "longest time that an idle worker waits to batch events; saves processor time, but adds latency; \
                    1ms is a good value";
        pass.range("batch-delay", batch_delay, Duration::ZERO..=Duration::from_millis(10), help);
        let help = "time to complete requests in progress at shutdown";
        pass.range("shutdown-timeout", shutdown_timeout, Duration::ZERO..=DAY, help);
        let help = "report on stderr operations that run longer than this without suspending; 0 disables the report";
        pass.range("stall-threshold", stall_threshold, Duration::ZERO..=DAY, help);
        let help =
            "size of a core's second-level cache, which determines the cohort size; 0 detects it";
        pass.key_as::<Size, _>("l2-cache-size", l2_cache_size, help);
        let help = "address of the admin pages: live metrics as HTML, as JSON and for Prometheus; loopback only \
                    unless admin-public is set, since they reveal details of the load";
        pass.key("admin", admin, help);
        pass.key(
            "admin-public",
            admin_public,
            "allow an admin address that other machines can reach",
        );
        let help = "host names under which the admin pages answer, in addition to IP addresses and localhost";
        pass.key("admin-hosts", admin_hosts, help);
    }
}

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

impl RuntimeConfig {
    /// Returns the semantic errors that ranges do not express; their keys are those of the table `runtime`.
    pub fn check(&self) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        if let Some(admin) = self.admin
            && !admin.ip().is_loopback()
            && !self.admin_public
        {
            let what = format!(
                "{admin} can be reached by other machines, and the admin pages have no password; use a \
                 loopback address, or set --admin-public (runtime.admin-public)"
            );
            errors.push(ConfigError::of("runtime.admin", what));
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        for name in &self.admin_hosts {
            if name.is_empty() || !name.bytes().all(plain) {
                let what = format!(
                    "found {name:?}, expected a name such as \"metrics.example.org\", without a port"
                );
                errors.push(ConfigError::of("runtime.admin-hosts", what));
            }
        }
        errors
    }

    /// The runtime with these settings.
    pub fn build(&self) -> Runtime {
        let placement = match self.placement {
            PlacementChoice::Auto if self.min_workers.is_some() || self.profile.is_some() => {
                PlacementMode::On
            }
            PlacementChoice::On => PlacementMode::On,
            PlacementChoice::Advise => PlacementMode::Advise,
            PlacementChoice::Off | PlacementChoice::Auto => PlacementMode::Off,
        };
        let runtime = match &self.profile {
            Some(path) => Runtime::new().profile(path),
            None => Runtime::new(),
        };
        runtime
            .processors(self.workers)
            .placement(placement, self.min_workers.unwrap_or(1))
            .driver(self.driver)
            .pin(self.pin)
            .spin(self.spin)
            .coalesce(self.batch_delay)
            .shutdown_timeout(self.shutdown_timeout)
            .stall_threshold(self.stall_threshold)
            .cache_bytes(self.l2_cache_size)
            .admin(self.admin)
            .admin_hosts(self.admin_hosts.iter().cloned())
            .signals(self.signals)
            .profiled()
    }
}
