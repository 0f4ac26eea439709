//! `phalanx web`: serve a directory.

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::content::Content;
use crate::service::Service;
use clap::Args;
use phalanx::Choice;
use phalanx_web::{Config, Inherited, Listen, Mistake, Origins, Tls, operate};

/// Serve a directory of files over HTTP.
///
/// When it is ready it prints one line on stdout for each address: `listening on http://ADDR:PORT`.
/// SIGINT (Ctrl-C) or SIGTERM asks it to finish what is under way; a second one ends it at once.
/// SIGHUP has it read its configuration again; if there is a mistake in it, the old one goes on.
///
/// What is set by a flag wins over its environment variable, that over --set, that over the file of
/// --config, and that over the default.
///
/// Exit codes: 0 after a requested end, 1 when a directory or an address cannot be had, 2 for bad
/// arguments or a configuration with mistakes in it.
#[derive(Args, Clone)]
pub(crate) struct Web {
    /// The directory to serve. Nothing outside of it is served, nor names that begin with a dot.
    /// [default: .]
    directory: Option<PathBuf>,

    /// Read the configuration from this file, in TOML; docs/web/configuration.md has all its keys.
    #[arg(long, short, value_name = "FILE", env = "PHALANX_CONFIG")]
    config: Option<PathBuf>,

    /// Set a key of the configuration, as it would be written in the file: `timeouts.idle="5s"`,
    /// `host.listing=true`. May be given several times.
    #[arg(long, value_name = "KEY=VALUE", env = "PHALANX_SET", value_delimiter = '\n')]
    set: Vec<String>,

    /// Look whether the configuration is right and what it names is there (directories, error pages,
    /// certificates), tell of all that is wrong, and end: with 0 if nothing is, 1 if something cannot
    /// be had, 2 for mistakes.
    #[arg(long)]
    check: bool,

    /// Print the whole configuration as TOML, as it would be served, and end.
    #[arg(long)]
    print_config: bool,

    /// Where to listen; port 0 takes a free one. May be given several times. Sockets that systemd hands
    /// over take the place of all.
    /// [default: 127.0.0.1:8080]
    #[arg(long, short, value_name = "ADDR:PORT", env = "PHALANX_LISTEN", value_delimiter = ',')]
    listen: Vec<Listen>,

    /// Serve over TLS, with this certificate: a PEM file, the certificates that lead to the root
    /// behind it. It is looked at again while the server runs, and a renewed one is taken.
    #[arg(long, value_name = "FILE", requires = "tls_key", env = "PHALANX_TLS_CERTIFICATE")]
    tls_certificate: Option<PathBuf>,

    /// The certificate's private key: a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_certificate", env = "PHALANX_TLS_KEY")]
    tls_key: Option<PathBuf>,

    /// Also listen here, without TLS, to send clients to where there is TLS.
    #[arg(
        long,
        value_name = "ADDR:PORT",
        requires = "tls_certificate",
        env = "PHALANX_REDIRECT_HTTP"
    )]
    redirect_http: Option<SocketAddr>,

    /// Speak HTTP/2 without TLS too, to clients that begin with it.
    #[arg(long, env = "PHALANX_H2C")]
    h2c: bool,

    /// How many processors: threads, each bound to a core. Default: one for each core.
    #[arg(long, short, value_name = "N", env = "PHALANX_PROCESSORS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    processors: Option<u16>,

    /// How to reach the kernel: io_uring, or readiness (epoll, kqueue). `auto` takes io_uring where
    /// there is one. [default: auto]
    #[arg(long, value_name = "auto|uring|poll", env = "PHALANX_DRIVER")]
    driver: Option<Choice>,

    /// Show what the server does there, live, and serve /snapshot.json, /metrics and more; on the
    /// loopback only: they tell all about the load. See also `phalanx top`.
    #[arg(long, value_name = "ADDR:PORT", env = "PHALANX_ADMIN")]
    admin: Option<SocketAddr>,

    /// Allow an --admin address that others can reach.
    #[arg(long, requires = "admin", env = "PHALANX_ADMIN_PUBLIC")]
    admin_public: bool,

    /// Memory for files' contents, over all processors. [default: 256M]
    #[arg(long, value_name = "BYTES", value_parser = phalanx_web::amount, env = "PHALANX_CACHE")]
    cache: Option<usize>,

    /// The most connections at once; more are answered with 503 and closed. [default: 100000]
    #[arg(long, value_name = "N", env = "PHALANX_MAX_CONNECTIONS")]
    max_connections: Option<NonZero<usize>>,

    /// Milliseconds that work may wait in an overloaded server. When it waits for longer, requests
    /// are refused with 503 before anything is done for them, so that those let in are answered in
    /// up to about twice this time. 0 never refuses any. [default: 15]
    #[arg(long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(0..=60_000), env = "PHALANX_TARGET_WAIT")]
    target_wait: Option<u64>,

    /// Seconds that a client has for the whole of a request. [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400), env = "PHALANX_REQUEST_TIMEOUT")]
    request_timeout: Option<u64>,

    /// Seconds that a connection may be idle between requests. [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400), env = "PHALANX_IDLE_TIMEOUT")]
    idle_timeout: Option<u64>,

    /// Seconds to finish what is under way after a signal, before it is ended. [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86_400), env = "PHALANX_DRAIN")]
    drain: Option<u64>,

    /// Microseconds that a processor without work looks for some before it sleeps. [default: 20]
    #[arg(long, value_name = "MICROSECONDS", env = "PHALANX_SPIN")]
    spin: Option<u64>,

    /// Microseconds that a processor without work may wait for more than one thing to come, so that
    /// requests are worked on in larger cohorts and cost less, at the price of latency: 1000 is a
    /// good value. Waits only where the load fills a cohort within this time. 0 never waits.
    /// [default: 0]
    #[arg(long, value_name = "MICROSECONDS", value_parser = clap::value_parser!(u64).range(0..=10_000), env = "PHALANX_HOLD")]
    hold: Option<u64>,

    /// Milliseconds after which an operation that does not suspend is told on stderr; 0 for never.
    /// [default: 100]
    #[arg(long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(0..=86_400_000), env = "PHALANX_LONG_OPERATION")]
    long_operation: Option<u64>,

    /// Bytes of a core's second-level cache, by which the runtime chooses the size of cohorts; 0 for
    /// what the machine says. [default: 0]
    #[arg(long, value_name = "BYTES", value_parser = phalanx_web::amount, env = "PHALANX_CORE_CACHE")]
    core_cache: Option<usize>,

    /// Do not bind processors to cores.
    #[arg(long, env = "PHALANX_NO_PIN")]
    no_pin: bool,

    #[command(flatten)]
    content: Content,
}

impl Web {
    pub(crate) fn run(self) -> ExitCode {
        let inherited = match Inherited::of_environment() {
            Ok(inherited) => inherited,
            Err(error) => {
                eprintln!("phalanx: {error}");
                return ExitCode::FAILURE;
            }
        };
        let given = inherited.listen();
        let config = match self.load(given.as_deref()) {
            Ok(config) => config,
            Err(mistakes) => {
                mistakes.iter().for_each(|mistake| eprintln!("phalanx: {mistake}"));
                return ExitCode::from(2);
            }
        };
        if self.print_config {
            return print(&config);
        }
        if self.check {
            return check(&config);
        }
        phalanx::raise_open_files();
        let served = operate(config, inherited, Arc::new(Service::new(self, given)));
        match served {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                error.to_string().lines().for_each(|line| eprintln!("phalanx: {line}"));
                ExitCode::FAILURE
            }
        }
    }

    /// The configuration that the file, the environment and the flags come to. Where it listens may be
    /// `given`: then nothing else decides it.
    pub(crate) fn load(&self, given: Option<&[Listen]>) -> Result<Config, Vec<Mistake>> {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let (mut config, mut origins) = (Config::new(), Origins::default());
        config.runtime.processors = cores.min(1024);
        if let Some(path) = &self.config {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(path)
                .map_err(|error| vec![Mistake::new(&name, "", &error.to_string())])?;
            let base = path.parent().unwrap_or(Path::new(""));
            config.read(&text, &name, base, &mut origins)?;
        }
        for set in &self.set {
            config.read(set, &format!("--set {set}"), Path::new(""), &mut origins)?;
        }
        self.apply(&mut config, given, &mut origins)?;
        let mistakes = config.check();
        if mistakes.is_empty() {
            return Ok(config);
        }
        Err(mistakes.into_iter().map(|mistake| mistake.located(&origins)).collect())
    }

    /// Sets what flags and the environment say.
    fn apply(
        &self,
        config: &mut Config,
        given: Option<&[Listen]>,
        origins: &mut Origins,
    ) -> Result<(), Vec<Mistake>> {
        if let Some(directory) = &self.directory {
            let Some(host) = config.hosts.iter_mut().find(|host| host.names.is_empty()) else {
                let what = "there is no default host whose root it could be: all have names";
                return Err(vec![Mistake::new("DIRECTORY", "host", what)]);
            };
            host.root.clone_from(directory);
        }
        fn set<T: Clone>(to: &mut T, from: &Option<T>) {
            if let Some(from) = from {
                to.clone_from(from);
            }
        }
        if let Some(host) = config.hosts.iter_mut().find(|host| host.names.is_empty()) {
            self.content.apply(host);
        }
        if !self.listen.is_empty() {
            config.listen.clone_from(&self.listen);
        }
        if let Some(given) = given {
            config.listen = given.to_vec();
        }
        self.apply_tls(config)?;
        let runtime = &mut config.runtime;
        set(&mut runtime.processors, &self.processors.map(usize::from));
        set(&mut runtime.driver, &self.driver);
        runtime.pin &= !self.no_pin;
        set(&mut runtime.spin, &self.spin.map(Duration::from_micros));
        set(&mut runtime.hold, &self.hold.map(Duration::from_micros));
        set(&mut runtime.drain, &self.drain.map(Duration::from_secs));
        set(&mut runtime.long_operation, &self.long_operation.map(Duration::from_millis));
        set(&mut runtime.core_cache, &self.core_cache);
        if self.admin.is_some() {
            runtime.admin = self.admin;
            origins.said("runtime.admin", "--admin");
        }
        runtime.admin_public |= self.admin_public;
        set(&mut config.cache_bytes, &self.cache);
        set(&mut config.max_connections, &self.max_connections.map(NonZero::get));
        if let Some(wait) = self.target_wait {
            config.target_wait = (wait > 0).then(|| Duration::from_millis(wait));
        }
        let timeouts = &mut config.timeouts;
        set(&mut timeouts.request, &self.request_timeout.map(Duration::from_secs));
        set(&mut timeouts.idle, &self.idle_timeout.map(Duration::from_secs));
        Ok(())
    }
}

impl Web {
    /// A certificate that is given by flags is the default host's, and all addresses have TLS then.
    fn apply_tls(&self, config: &mut Config) -> Result<(), Vec<Mistake>> {
        config.h2c |= self.h2c;
        if let (Some(certificate), Some(key)) = (&self.tls_certificate, &self.tls_key) {
            let Some(host) = config.hosts.iter_mut().find(|host| host.names.is_empty()) else {
                let what = "there is no default host whose certificate it could be: all have names";
                return Err(vec![Mistake::new("--tls-certificate", "host", what)]);
            };
            host.tls = Some(Tls { certificate: certificate.clone(), key: key.clone() });
            config.listen.iter_mut().for_each(|listen| listen.tls = !listen.to_https);
        }
        config.listen.extend(self.redirect_http.map(Listen::to_https));
        Ok(())
    }
}

/// Prints the configuration such that it means the same wherever it is read from: read once more, its
/// relative paths begin here.
fn print(config: &Config) -> ExitCode {
    let whole = std::env::current_dir().map_err(|error| error.to_string()).and_then(|here| {
        let mut whole = Config::new();
        match whole.read(&config.to_toml(), "configuration", &here, &mut Origins::default()) {
            Ok(()) => Ok(whole.to_toml()),
            Err(mistakes) => Err(mistakes.iter().map(Mistake::to_string).collect()),
        }
    });
    match whole {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("phalanx: the configuration cannot be printed: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Tells what the configuration names and is not there.
fn check(config: &Config) -> ExitCode {
    let missing = config.missing();
    for line in config.doubts().iter().chain(&missing) {
        eprintln!("phalanx: {line}");
    }
    match missing.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
