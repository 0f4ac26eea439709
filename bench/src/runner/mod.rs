//! Runs servers side by side: a site, a core for the servers and one for the load, and slices in turn.

mod cachegrind;
pub(crate) mod features;
pub(crate) mod pages;
pub(crate) mod peers;
pub(crate) mod server;
pub(crate) mod servers;
pub(crate) mod site;
pub(crate) mod slice;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tempfile::TempDir;

use crate::arguments::number;
use crate::error::Error;
use crate::measure::{Arms, CpuTimes, EventRow, Machine, Partial, Run, interference, measure_arms};
use crate::system::{Bound, Cores, install_signal_handlers, process};

use features::Certificate;
pub(crate) use features::Features;
pub(crate) use peers::{BROKERS, Environment, Peer, Tuned, WEB, versions};
pub(crate) use server::{Server, ServerSpec};
use servers::Versions;
pub(crate) use servers::ours;
use site::is_in_memory;
pub(crate) use site::{Site, SurgeSite};
use slice::EventLog;
use slice::Load;
pub(crate) use slice::{Shot, Slice, serves_all};

/// How often a disturbed slice is repeated before it is kept.
const MAX_REPEATS: usize = 2;
/// Minimum length of a slice that is repeated because it had no answer.
const LONG_SLICE: Duration = Duration::from_secs(5);
/// Arguments of `phalanx web` in closed loop: it answers every request, since a rejection costs less than an answer.
pub(crate) const ANSWER_ALL: [&str; 2] = ["--max-queue-delay", "0"];
/// Time for a server to complete its work after a slice.
pub(crate) const SETTLE_TIME: Duration = Duration::from_millis(30);

/// Options common to all benchmarks of servers.
#[derive(Args, Clone, Debug)]
pub(crate) struct RunnerOptions {
    /// Processors of each server: workers of Phalanx and of its peers [default: all cores, or three quarters where
    /// a core is left for the load]
    #[arg(long, value_name = "N", value_parser = number(1..=64))]
    pub(crate) processors: Option<usize>,

    /// Cores and program
    #[command(flatten)]
    pub(crate) setup: SetupOptions,
}

/// Cores and the measured program.
#[derive(Args, Clone, Debug)]
pub(crate) struct SetupOptions {
    /// Cores of the servers [default: as many as processors, all if there are not more]
    #[arg(long = "server-core", value_name = "CORE,…", value_delimiter = ',')]
    pub(crate) server_cores: Vec<usize>,

    /// Cores of the load [default: those without a server, all if there is none]
    #[arg(long = "load-core", value_name = "CORE,…", value_delimiter = ',')]
    pub(crate) load_cores: Vec<usize>,

    /// The `phalanx` to measure [default: the one beside this program, or on the search path]
    #[arg(long, value_name = "PATH", env = "PHALANX_EXECUTABLE", hide_env_values = true)]
    pub(crate) phalanx: Option<PathBuf>,
}

impl RunnerOptions {
    /// The cores, and the number of processors of each server.
    pub(crate) fn cores(&self) -> std::io::Result<(Cores, usize)> {
        let cores =
            Cores::choose(&self.setup.server_cores, &self.setup.load_cores, self.processors)?;
        let processors = self.processors.unwrap_or(cores.server.len());
        Ok((cores, processors))
    }

    /// The core of a measurement with one thread.
    pub(crate) fn one_core(&self) -> std::io::Result<Vec<usize>> {
        Ok(Cores::choose(&self.setup.server_cores, &[], Some(1))?.server)
    }
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
    /// The server on the load's cores that proxies forward requests to.
    upstream: Option<Server>,
    events: RefCell<EventLog>,
    _bound: Bound,
}

/// Servers to start, and their site.
pub(crate) struct Plan<'a> {
    /// Selects servers by name.
    pub(crate) wants: &'a dyn Fn(&str) -> bool,
    /// Additional arguments of `phalanx web`.
    pub(crate) arguments: &'a [&'a str],
    pub(crate) site: &'a dyn Fn(&Path) -> std::io::Result<Site>,
    /// Whether disturbed slices are repeated.
    pub(crate) check_noise: bool,
    /// Whether to evict the site from the page cache before each slice.
    pub(crate) cold: bool,
    /// Features of the servers; servers without them are left out.
    pub(crate) features: Features,
}

impl<'a> Plan<'a> {
    /// The selected servers with small files and no further features, which answer every request. Noise is ignored in
    /// quick runs.
    pub(crate) fn small(wants: &'a dyn Fn(&str) -> bool, quick: bool) -> Self {
        Self {
            wants,
            arguments: &ANSWER_ALL,
            site: &Site::make,
            check_noise: !quick,
            cold: false,
            features: Features::NONE,
        }
    }
}

impl Runner {
    /// Starts the servers, and binds this thread to the load's cores until they are stopped.
    pub(crate) fn start(options: &RunnerOptions, plan: &Plan<'_>) -> Result<Self, Error> {
        let (cores, processors) = options.cores()?;
        let mut runner = Self::prepare(&options.setup, cores, plan.site, plan.check_noise)?;
        runner.machine.processors = processors;
        runner.cold = plan.cold;
        if plan.cold && is_in_memory(runner.directory.path())? {
            eprintln!("{}", Error::InMemory(runner.directory.path().to_owned()));
        }
        let on = runner.cores.server.clone();
        match runner.add(plan, processors, &on)?.is_empty() {
            true => Err(Error::NoServers),
            false => Ok(runner),
        }
    }

    /// Creates the site, and binds this thread to the load's cores. There are no servers yet.
    pub(crate) fn prepare(
        setup: &SetupOptions,
        cores: Cores,
        site: &dyn Fn(&Path) -> std::io::Result<Site>,
        check_noise: bool,
    ) -> Result<Self, Error> {
        install_signal_handlers()?;
        phalanx::runtime::raise_open_files();
        let directory = tempfile::Builder::new().prefix("phalanx-bench-").tempdir()?;
        let site = site(directory.path())?;
        Ok(Self {
            machine: Machine::here(cores.server.len(), &cores),
            // Keep this process off the servers' cores.
            _bound: Bound::to(&cores.load)?,
            cores,
            servers: Vec::new(),
            versions: Versions::new(),
            site,
            phalanx: process::phalanx(setup.phalanx.as_deref()),
            directory,
            check_noise,
            cold: false,
            certificate: None,
            upstream: None,
            events: RefCell::default(),
        })
    }

    /// Starts servers with this many processors on `cores`, and returns their names.
    pub(crate) fn add(
        &mut self,
        plan: &Plan<'_>,
        processors: usize,
        cores: &[usize],
    ) -> Result<Vec<String>, Error> {
        // Each call has its own folder, since configurations are named after their servers.
        let directory = self.directory.path().join(self.servers.len().to_string());
        std::fs::create_dir_all(&directory)?;
        if plan.features.tls && self.certificate.is_none() {
            self.certificate = Some(Certificate::make(self.directory.path())?);
        }
        if plan.features.proxy && self.upstream.is_none() {
            let (on, name) = (&self.cores.load, "upstream".to_owned());
            let web = self.web_of(&self.site.root, ours().0, on.len(), &ANSWER_ALL);
            let spec = ServerSpec { name, ..web };
            self.upstream = Some(Server::start(spec, on, &directory, &self.site)?);
        }
        let (specs, versions) = self.specs(plan, processors, cores.len(), &directory)?;
        self.versions = versions;
        let start = |spec| Server::start(spec, cores, &directory, &self.site);
        let servers = specs.into_iter().map(start).collect::<Result<Vec<_>, Error>>()?;
        let names = servers.iter().map(|server| server.name.clone()).collect();
        self.servers.extend(servers);
        Ok(names)
    }

    /// Starts an additional `phalanx web`.
    pub(crate) fn add_web(
        &mut self,
        driver: &'static str,
        arguments: &[&str],
    ) -> Result<(), Error> {
        self.add_spec(self.web(driver, arguments))
    }

    /// Checks that the site can be evicted from the page cache.
    pub(crate) fn check_evicts(&self) -> Result<(), Error> {
        let directory = self.directory.path();
        match is_in_memory(directory)? {
            true => Err(Error::InMemory(directory.to_owned())),
            false => Ok(()),
        }
    }

    /// The served site.
    pub(crate) fn site(&self) -> &Site {
        &self.site
    }

    /// Path of the measured program.
    pub(crate) fn phalanx(&self) -> &Path {
        &self.phalanx
    }

    /// An additional `phalanx web`, to start by [`add_spec`](Self::add_spec).
    pub(crate) fn web(&self, driver: &'static str, arguments: &[&str]) -> ServerSpec {
        let spec = self.web_of(&self.site.root, driver, self.machine.processors, arguments);
        ServerSpec { name: format!("{}-{}", spec.name, self.servers.len()), ..spec }
    }

    /// Starts an additional server.
    pub(crate) fn add_spec(&mut self, spec: ServerSpec) -> Result<(), Error> {
        let server = Server::start(spec, &self.cores.server, self.directory.path(), &self.site)?;
        self.servers.push(server);
        Ok(())
    }

    /// Runs a slice of load on a server, and repeats it if it was disturbed. It is noisy if the last one was as well.
    /// A slice without any answer takes at least [`LONG_SLICE`] when it is repeated, because a server that waits for its
    /// core may answer nothing within a short one.
    pub(crate) fn slice(
        &self,
        server: &Server,
        slice: Duration,
        shot: Shot,
    ) -> Result<Slice, Error> {
        let all: Vec<u32> =
            self.servers.iter().flat_map(|server| &server.process.family).copied().collect();
        let others = self.upstream.as_ref().map_or(&[][..], |server| &server.process.family);
        let processes = if self.cores.are_shared() { 1 } else { self.cores.load.len() };
        let mut load = Load {
            directory: self.directory.path(),
            site: &self.site,
            warmup: slice / 10,
            slice,
            processes,
        };
        let mut left = MAX_REPEATS;
        loop {
            if self.cold {
                self.site.forget()?;
            }
            std::thread::sleep(SETTLE_TIME);
            let before = CpuTimes::take_beside(&self.cores, &all, others)?;
            let report = load.report(server, shot)?;
            let after = CpuTimes::take_beside(&self.cores, &all, others)?;
            let foreign = before.foreign_until(&after, &self.cores);
            let disturbed = foreign > interference::MAX_FOREIGN_SHARE;
            // A short slice may fail for lack of a core, independent of the server. Likewise a closed loop in
            // which the machine stalled for the length of the slice, without processor time used by others.
            let failed = report.errors.total() > 0;
            let short = !self.check_noise && shot.rate.is_none() && (failed || report.starved > 0);
            let nothing = report.requests_per_second == 0.0;
            let again = nothing || short || disturbed && (self.check_noise || failed);
            if !again || left == 0 {
                self.events.borrow_mut().add(&server.name, shot, &report);
                return Ok(Slice { report, noisy: disturbed && self.check_noise });
            }
            match disturbed {
                true => eprintln!(
                    "  {}: other processes used {:.0} % of a core; repeating",
                    server.name,
                    foreign * 100.0
                ),
                false => eprintln!("  {}: not all requests were answered; repeating", server.name),
            }
            if nothing {
                load.slice = load.slice.max(LONG_SLICE);
            }
            left -= 1;
        }
    }

    /// A slice of load on the server with this number. Wrong answers are an error.
    pub(crate) fn right_slice(
        &self,
        server: usize,
        slice: Duration,
        shot: Shot,
    ) -> Result<Slice, Error> {
        let server = &self.servers[server];
        self.slice(server, slice, shot)?.of_right_answers(server)
    }

    /// Slices of this number and length of each server in turn, under each setting.
    pub(crate) fn slices<S>(
        &self,
        settings: &[S],
        title: impl Fn(&S) -> String,
        (slices, length): (usize, Duration),
        shot: impl Fn(&S, usize) -> Shot,
    ) -> Result<(Vec<Arms<Slice>>, Option<Partial>), Error> {
        measure_arms(settings, title, (self.servers.len(), slices), |setting, server, seed| {
            self.right_slice(server, length, shot(setting, seed))
        })
    }

    /// Hardware events per request of each server and load; none if the machine does not count them.
    pub(crate) fn events(&self) -> Vec<EventRow> {
        self.events.borrow().rows()
    }

    /// The report of a run on these servers.
    pub(crate) fn report<F>(&self, figures: F, partial: Option<Partial>, quick: bool) -> Run<F> {
        let hardware_events = self.events();
        Run { hardware_events, ..Run::new(figures, self.machine.clone(), partial, quick) }
    }

    /// The same, with the name of a scene before each server.
    pub(crate) fn events_of(&self, scene: &str) -> impl Iterator<Item = EventRow> {
        let named =
            move |row: EventRow| EventRow { server: format!("{scene}: {}", row.server), ..row };
        self.events().into_iter().map(named)
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
        Ok(self.slice(server, slice, shot)?.report.successes_per_second())
    }
}
