//! Runs servers side by side: a site, a core for the servers and one for the load, and slices in turn.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tempfile::TempDir;

use super::certificate::Certificate;
use super::cores::{Bound, Cores};
use super::features::Features;
use super::interference::{self, CpuTimes};
use super::machine::Machine;
use super::server::{Server, ServerSpec};
use super::servers::{Selection, Versions, web};
use super::site::Site;
use super::slice::{Load, Shot};
use super::{Error, MAX_REPEATS, SETTLE_TIME, install_signal_handlers};
use crate::load::Report;
use crate::programs;

/// Options common to all benchmarks of servers.
#[derive(Args, Clone, Debug)]
pub struct RunnerOptions {
    /// Core of the servers [default: the first usable one]
    #[arg(long, value_name = "CORE")]
    pub server_core: Option<usize>,

    /// Core of the load [default: the second usable one]
    #[arg(long, value_name = "CORE")]
    pub load_core: Option<usize>,

    /// The `phalanx` to measure [default: the one beside this program, or on the search path]
    #[arg(long, value_name = "PATH", env = "PHALANX_EXECUTABLE", hide_env_values = true)]
    pub phalanx: Option<PathBuf>,
}

/// Running servers and their environment.
pub(crate) struct Runner {
    pub(crate) cores: Cores,
    pub(crate) machine: Machine,
    pub(crate) servers: Vec<Server>,
    pub(crate) versions: Versions,
    site: Site,
    phalanx: PathBuf,
    directory: TempDir,
    check_noise: bool,
    cold: bool,
    certificate: Option<Certificate>,
    _bound: Bound,
}

/// Servers to start, and their site.
pub(crate) struct Plan<'a> {
    /// Selects servers by name.
    pub(crate) wants: &'a dyn Fn(&str) -> bool,
    /// Additional arguments of `phalanx web`.
    pub(crate) arguments: &'a [&'a str],
    pub(crate) site: &'a dyn Fn(&std::path::Path) -> std::io::Result<Site>,
    /// Whether disturbed slices are repeated.
    pub(crate) check_noise: bool,
    /// Whether to evict the site from the page cache before each slice.
    pub(crate) cold: bool,
    /// Features of the servers; servers without them are left out.
    pub(crate) features: Features,
}

impl<'a> Plan<'a> {
    /// The selected servers with small files and no further features. Noise is ignored in quick runs.
    pub(crate) fn small(wants: &'a dyn Fn(&str) -> bool, quick: bool) -> Self {
        Self {
            wants,
            arguments: &[],
            site: &Site::make,
            check_noise: !quick,
            cold: false,
            features: Features::NONE,
        }
    }
}

impl Runner {
    /// Starts the servers, and binds this thread to the load's core until they are stopped.
    pub(crate) fn start(options: &RunnerOptions, plan: &Plan<'_>) -> Result<Self, Error> {
        install_signal_handlers()?;
        let cores = Cores::choose(options.server_core, options.load_core).map_err(Error::Io)?;
        let allowed = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let machine = Machine::here(allowed, cores);
        phalanx::runtime::raise_open_files();
        let phalanx = programs::phalanx(options.phalanx.as_deref());
        let directory =
            tempfile::Builder::new().prefix("phalanx-bench-").tempdir().map_err(Error::Io)?;
        let site = (plan.site)(directory.path()).map_err(Error::Io)?;
        let certificate =
            plan.features.tls.then(|| Certificate::make(directory.path())).transpose();
        let certificate = certificate.map_err(Error::Io)?;
        let selection = Selection {
            wants: plan.wants,
            arguments: plan.arguments,
            phalanx: &phalanx,
            directory: directory.path(),
            site: &site,
            certificate: certificate.as_ref(),
            features: plan.features,
        };
        let (specs, versions) = selection.specs().map_err(Error::Io)?;
        if specs.is_empty() {
            return Err(Error::NoServers);
        }
        let start = |spec| Server::start(spec, cores.server, directory.path(), &site);
        let servers = specs.into_iter().map(start).collect::<Result<Vec<_>, Error>>()?;
        // Keep this process off the servers' core.
        let bound = Bound::to(cores.load).map_err(Error::Io)?;
        let Plan { check_noise, cold, .. } = *plan;
        Ok(Self {
            cores,
            machine,
            servers,
            versions,
            site,
            phalanx,
            directory,
            check_noise,
            cold,
            certificate,
            _bound: bound,
        })
    }

    /// Starts an additional `phalanx web`.
    pub(crate) fn add_web(
        &mut self,
        driver: &'static str,
        arguments: &[&str],
    ) -> Result<(), Error> {
        let spec = web(&self.phalanx, &self.site, driver, arguments, self.certificate.as_ref());
        let spec = ServerSpec { name: format!("{}-{}", spec.name, self.servers.len()), ..spec };
        let server = Server::start(spec, self.cores.server, self.directory.path(), &self.site)?;
        self.servers.push(server);
        Ok(())
    }

    /// Path of the measured program.
    pub(crate) fn phalanx(&self) -> &std::path::Path {
        &self.phalanx
    }

    /// The served site.
    pub(crate) fn site(&self) -> &Site {
        &self.site
    }

    /// Runs a slice of load on a server, and repeats it if it was disturbed. The flag is true if the last one was
    /// as well.
    pub(crate) fn slice(
        &self,
        server: &Server,
        slice: Duration,
        shot: Shot,
    ) -> Result<(Report, bool), Error> {
        let all: Vec<u32> =
            self.servers.iter().flat_map(|server| &server.process.family).copied().collect();
        let load = Load { directory: self.directory.path(), site: &self.site, slice };
        let mut left = MAX_REPEATS;
        loop {
            if self.cold {
                self.site.forget().map_err(Error::Io)?;
            }
            std::thread::sleep(SETTLE_TIME);
            let before = CpuTimes::take(self.cores, &all).map_err(Error::Io)?;
            let report = load.report(server, shot)?;
            let after = CpuTimes::take(self.cores, &all).map_err(Error::Io)?;
            let foreign = before.foreign_until(&after, self.cores);
            let disturbed = foreign > interference::MAX_FOREIGN_SHARE;
            // A short slice may fail for lack of a core, independent of the server. Likewise a closed loop in
            // which the machine stalled for the length of the slice, without processor time used by others.
            let failed = report.errors.total() > 0;
            let short = !self.check_noise && shot.rate.is_none() && (failed || report.starved > 0);
            let nothing = report.requests_per_second == 0.0;
            let again = nothing || short || disturbed && (self.check_noise || failed);
            if !again || left == 0 {
                return Ok((report, disturbed && self.check_noise));
            }
            match disturbed {
                true => eprintln!(
                    "  {}: other processes used {:.0} % of a core; repeating",
                    server.name,
                    foreign * 100.0
                ),
                false => eprintln!("  {}: not all requests were answered; repeating", server.name),
            }
            left -= 1;
        }
    }

    /// Successful answers per second in closed loop.
    pub(crate) fn capacity(
        &self,
        server: &Server,
        slice: Duration,
        connections: usize,
    ) -> Result<f64, Error> {
        let timeout = slice + Duration::from_secs(5);
        let shot = Shot::closed(connections, 1, timeout);
        Ok(self.slice(server, slice, shot)?.0.successes_per_second())
    }
}
