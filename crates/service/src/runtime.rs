//! Runtime settings of a server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use phalanx::Runtime;
use phalanx::runtime::{DriverChoice, PlacementMode};
use phalanx_config::{ConfigError, Pass, Size, choices, settings};

use crate::workers::Workers;

settings! {
    /// Runtime settings: workers, driver, shutdown and admin pages.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RuntimeConfig {
        @section "Runtime";
        /// Worker threads (processors), each with its own listening sockets: 1 to 1024.
        pub workers: usize = 1 => with(worker_keys);
        /// Minimum number of active workers, if `workers` is a range.
        pub min_workers: Option<usize> => none();
        /// Automatic placement.
        pub placement: PlacementChoice = PlacementChoice::Auto
            => key_as::<Choices>("placement",
                "whether the number of active workers follows the load: on, off, advise (record what on would do), \
                 or auto: on if workers is a range or there is a profile");
        /// The profile used by automatic placement.
        pub profile: Option<PathBuf>
            => key("profile",
                "file written by `phalanx profile`, from which placement chooses the number of active workers, spin \
                 and batch-delay");
        /// I/O driver.
        pub driver: DriverChoice = DriverChoice::Auto
            => key_as::<Choices>("driver",
                "kernel interface: io_uring, or poll (epoll, kqueue); auto uses io_uring unless it is missing or \
                 forbidden, and logs one line in that case");
        /// Whether each worker is bound to a core.
        pub pin: bool
            => key("pin", "pin each worker to a separate core; for machines that run nothing else");
        /// Longest time that an idle worker polls before it sleeps.
        pub spin: Duration = phalanx::runtime::DEFAULT_SPIN
            => range("spin", Duration::ZERO..=SECOND,
                "longest time that an idle worker polls before it sleeps; it polls less if polling costs more \
                 processor time than it saves");
        /// Longest time that an idle worker waits in order to batch events; zero disables batching.
        pub batch_delay: Duration
            => range("batch-delay", Duration::ZERO..=Duration::from_millis(10),
                "longest time that an idle worker waits to batch events; saves processor time, but adds latency; 1ms \
                 is a good value");
        /// Time to finish work in progress at shutdown.
        pub shutdown_timeout: Duration = phalanx::runtime::DEFAULT_SHUTDOWN_TIMEOUT
            => range("shutdown-timeout", Duration::ZERO..=DAY, "time to complete requests in progress at shutdown");
        /// Run time above which an operation that does not suspend is reported on stderr; zero disables the
        /// report.
        pub stall_threshold: Duration = phalanx::runtime::DEFAULT_STALL_THRESHOLD
            => range("stall-threshold", Duration::ZERO..=DAY,
                "report on stderr operations that run longer than this without suspending; 0 disables the report");
        /// Size of a core's second-level cache in bytes, from which cohort sizes are derived; zero detects it.
        pub l2_cache_size: usize
            => key_as::<Size>("l2-cache-size",
                "size of a core's second-level cache, which determines the cohort size; 0 detects it");
        /// Address of the admin pages.
        pub admin: Option<SocketAddr>
            => key("admin",
                "address of the admin pages: live metrics as HTML, as JSON and for Prometheus; loopback only unless \
                 admin-public is set, since they reveal details of the load");
        /// Whether other machines may reach the admin pages.
        pub admin_public: bool
            => key("admin-public", "allow an admin address that other machines can reach");
        /// Host names accepted by the admin pages, in addition to IP addresses and `localhost`.
        pub admin_hosts: Vec<String>
            => key("admin-hosts",
                "host names under which the admin pages answer, in addition to IP addresses and localhost");
        /// Whether signals end the program. Not a key of the configuration file.
        pub signals: bool = true => none();
    }
}

/// The key `workers`: a number, or a range.
fn worker_keys(config: &mut RuntimeConfig, pass: &mut Pass<'_, '_>) {
    let RuntimeConfig { workers, min_workers, .. } = config;
    let help = "number of workers: threads, each with its own listening sockets; from 1 to 1024, or a range such as \
                 \"1..8\", within which the number of active workers follows the load";
    let mut range = (min_workers.unwrap_or(*workers), *workers);
    pass.key_as::<Workers, _>("workers", &mut range, help);
    pass.default_is("one per core");
    (*min_workers, *workers) = ((range.0 < range.1).then_some(range.0), range.1);
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
            let message = format!(
                "{admin} can be reached by other machines, and the admin pages have no password; use a \
                 loopback address, or set --admin-public (runtime.admin-public)"
            );
            errors.push(ConfigError::for_key("runtime.admin", message));
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        for name in &self.admin_hosts {
            if name.is_empty() || !name.bytes().all(is_plain) {
                let message = format!(
                    "found {name:?}, expected a name such as \"metrics.example.org\", without a port"
                );
                errors.push(ConfigError::for_key("runtime.admin-hosts", message));
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
