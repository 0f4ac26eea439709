//! Runtime settings of a server.

use std::net::SocketAddr;
use std::time::Duration;

use phalanx::Runtime;
use phalanx::runtime::DriverChoice;
use phalanx_config::{ConfigError, Keys, Pass, choices};

/// Runtime settings: workers, driver, shutdown and admin pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeConfig {
    /// Worker threads (processors), each with its own listening sockets: 1 to 1024.
    pub workers: usize,
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
            driver: DriverChoice::Auto,
            pin: true,
            spin: phalanx::runtime::DEFAULT_SPIN,
            batch_delay: Duration::ZERO,
            shutdown_timeout: phalanx::runtime::DEFAULT_DRAIN,
            stall_threshold: phalanx::runtime::DEFAULT_STALL_THRESHOLD,
            l2_cache_size: 0,
            admin: None,
            admin_public: false,
            admin_hosts: Vec::new(),
            signals: true,
        }
    }
}

/// TOML form of a [`DriverChoice`].
struct Choices;

choices! {
    Choices as DriverChoice: DriverChoice::Auto = "auto", DriverChoice::Uring = "uring", DriverChoice::Poll = "poll";
}

impl Keys for RuntimeConfig {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        let Self {
            workers,
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
        pass.key("workers", workers);
        pass.key_as::<Choices, _>("driver", driver);
        pass.key("pin", pin);
        pass.key("spin", spin);
        pass.key("batch-delay", batch_delay);
        pass.key("shutdown-timeout", shutdown_timeout);
        pass.key("stall-threshold", stall_threshold);
        pass.key("l2-cache-size", l2_cache_size);
        pass.key("admin", admin);
        pass.key("admin-public", admin_public);
        pass.key("admin-hosts", admin_hosts);
    }
}

impl RuntimeConfig {
    /// Returns all semantic errors; their keys are those of the table `runtime`.
    pub fn check(&self) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        if !(1..=1024).contains(&self.workers) {
            let what = format!("found {}, expected 1 to 1024", self.workers);
            errors.push(ConfigError::of("runtime.workers", what));
        }
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
        Runtime::new()
            .processors(self.workers)
            .driver(self.driver)
            .pin(self.pin)
            .spin(self.spin)
            .coalesce(self.batch_delay)
            .drain(self.shutdown_timeout)
            .stall_threshold(self.stall_threshold)
            .cache_bytes(self.l2_cache_size)
            .admin(self.admin)
            .admin_hosts(self.admin_hosts.iter().cloned())
            .signals(self.signals)
    }
}
