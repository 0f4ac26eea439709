//! `phalanx web`: serve a directory.

use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crate::content::Content;
use clap::Args;
use phalanx::Choice;
use phalanx_web::{Config, Listen, RuntimeConfig, serve};

/// Serve a directory of files over HTTP.
///
/// When it is ready it prints one line on stdout: `listening on http://ADDR:PORT`. SIGINT (Ctrl-C)
/// or SIGTERM asks it to finish what is under way; a second one ends it at once.
///
/// Exit codes: 0 after a requested end, 1 when the directory or the address cannot be had, 2 for
/// bad arguments.
#[derive(Args)]
pub(crate) struct Web {
    /// The directory to serve. Nothing outside of it is served, nor names that begin with a dot.
    #[arg(default_value = ".")]
    directory: PathBuf,

    /// Where to listen; port 0 takes a free one.
    #[arg(
        long,
        short,
        value_name = "ADDR:PORT",
        default_value = "127.0.0.1:8080",
        env = "PHALANX_LISTEN"
    )]
    listen: SocketAddr,

    /// How many processors: threads, each bound to a core. Default: one for each core.
    #[arg(long, short, value_name = "N", env = "PHALANX_PROCESSORS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    processors: Option<u16>,

    /// How to reach the kernel: io_uring, or readiness (epoll, kqueue). `auto` takes io_uring where
    /// there is one.
    #[arg(long, value_name = "auto|uring|poll", default_value = "auto", env = "PHALANX_DRIVER")]
    driver: Choice,

    /// Show what the server does there, live, and serve /snapshot.json, /metrics and more; on the
    /// loopback only: they tell all about the load. See also `phalanx top`.
    #[arg(long, value_name = "ADDR:PORT", env = "PHALANX_ADMIN")]
    admin: Option<SocketAddr>,

    /// Allow an --admin address that others can reach.
    #[arg(long, requires = "admin", env = "PHALANX_ADMIN_PUBLIC")]
    admin_public: bool,

    /// Memory for files' contents, over all processors.
    #[arg(long, value_name = "BYTES", default_value = "256M", value_parser = crate::bytes::parse, env = "PHALANX_CACHE")]
    cache: usize,

    /// The most connections at once; more are answered with 503 and closed.
    #[arg(long, value_name = "N", default_value = "100000", env = "PHALANX_MAX_CONNECTIONS")]
    max_connections: NonZero<usize>,

    /// Milliseconds that work may wait in an overloaded server. When it waits for longer, requests
    /// are refused with 503 before anything is done for them, so that those let in are answered in
    /// up to about twice this time. 0 never refuses any.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = phalanx::DEFAULT_TARGET_WAIT.as_millis() as u64, value_parser = clap::value_parser!(u64).range(0..=60_000), env = "PHALANX_TARGET_WAIT")]
    target_wait: u64,

    /// Seconds that a client has for the whole of a request.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400), env = "PHALANX_REQUEST_TIMEOUT")]
    request_timeout: u64,

    /// Seconds that a connection may be idle between requests.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400), env = "PHALANX_IDLE_TIMEOUT")]
    idle_timeout: u64,

    /// Seconds to finish what is under way after a signal, before it is ended.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=86_400), env = "PHALANX_DRAIN")]
    drain: u64,

    /// Microseconds that a processor without work looks for some before it sleeps.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = phalanx::DEFAULT_SPIN.as_micros() as u64, env = "PHALANX_SPIN")]
    spin: u64,

    /// Microseconds that a processor without work may wait for more than one thing to come, so that
    /// requests are worked on in larger cohorts and cost less, at the price of latency: 1000 is a good
    /// value. Waits only where the load fills a cohort within this time. 0 never waits.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=10_000), env = "PHALANX_HOLD")]
    hold: u64,

    /// Milliseconds after which an operation that does not suspend is told on stderr; 0 for never.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = phalanx::DEFAULT_LONG_OPERATION.as_millis() as u64, value_parser = clap::value_parser!(u64).range(0..=86_400_000), env = "PHALANX_LONG_OPERATION")]
    long_operation: u64,

    /// Do not bind processors to cores.
    #[arg(long, env = "PHALANX_NO_PIN")]
    no_pin: bool,

    #[command(flatten)]
    content: Content,
}

impl Web {
    pub(crate) fn run(self) -> ExitCode {
        if let Some(address) = self.admin.filter(|a| !a.ip().is_loopback() && !self.admin_public) {
            eprintln!(
                "phalanx: --admin {address} can be reached by others and shows them all about this \
                 server; use a loopback address, or say --admin-public"
            );
            return ExitCode::from(2);
        }
        phalanx::raise_open_files();
        let served = serve(self.config(), |serving| {
            if let Some(fallback) = &serving.up.fallback {
                eprintln!("phalanx: {fallback}");
            }
            if let Some(admin) = serving.up.admin {
                eprintln!("phalanx: look inside at http://{admin}/");
            }
            // One line for each, and at once: scripts wait for it. Nobody may be there to read it.
            let mut stdout = std::io::stdout();
            for address in serving.addresses {
                let _ = writeln!(stdout, "listening on http://{address}");
            }
            let _ = stdout.flush();
        });
        match served {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("phalanx: {error}");
                ExitCode::FAILURE
            }
        }
    }

    fn config(self) -> Config {
        let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
        let processors = self.processors.map_or_else(cores, usize::from);
        let runtime = RuntimeConfig {
            processors,
            driver: self.driver,
            pin: !self.no_pin,
            spin: Duration::from_micros(self.spin),
            hold: Duration::from_micros(self.hold),
            drain: Duration::from_secs(self.drain),
            long_operation: Duration::from_millis(self.long_operation),
            admin: self.admin,
            ..RuntimeConfig::default()
        };
        let mut config = Config::of(self.directory);
        self.content.apply(&mut config.hosts[0]);
        config.timeouts.request = Duration::from_secs(self.request_timeout);
        config.timeouts.idle = Duration::from_secs(self.idle_timeout);
        Config {
            listen: vec![Listen::plain(self.listen)],
            runtime,
            cache_bytes: self.cache,
            max_connections: self.max_connections.get(),
            target_wait: (self.target_wait > 0).then(|| Duration::from_millis(self.target_wait)),
            ..config
        }
    }
}
