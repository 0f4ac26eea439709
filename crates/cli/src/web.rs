//! `phalanx web`: serves a directory.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::content::Content;
use crate::service::Service;
use crate::settings::{self, FileArgs, RuntimeArgs, set, yes_or_no};
use crate::status;
use clap::Args;
use phalanx_web::{Config, ConfigError, Inherited, Listen, Origins, Scheme, Tls, operate};

/// Serve a directory of files over HTTP.
///
/// When ready, it prints a line per address to stdout: `listening on http://ADDR:PORT`. SIGINT (Ctrl-C) or
/// SIGTERM completes the requests in progress and exits; a second signal ends the server at once. SIGHUP reloads
/// the configuration; if it contains an error, the old one remains in effect.
///
/// Precedence: flag, environment variable, --set, file of --config, default.
///
/// Exit codes: 0 after a requested shutdown; 1 when a directory or an address is unavailable; 2 for bad arguments
/// or an invalid configuration.
#[derive(Args, Clone)]
pub(crate) struct Web {
    /// Directory to serve. Files outside of it and names that begin with a dot are not served. [default: .]
    directory: Option<PathBuf>,

    #[command(flatten)]
    file: FileArgs,

    /// Address to listen on: http://ADDR:PORT, https:// for TLS, redirect-https:// to redirect clients to TLS.
    /// Port 0 selects a free port; an address alone means http://, and a port alone 127.0.0.1. May be given
    /// several times. Sockets passed by systemd replace all addresses. [default: http://127.0.0.1:8080]
    #[arg(long, short, value_name = "URL", env, value_delimiter = ',')]
    listen: Vec<Listen>,

    /// Serve over TLS, at http:// addresses as well, with this certificate: a PEM file with the certificate and its intermediates. A renewed
    /// file is loaded at run time.
    #[arg(long, value_name = "FILE", requires = "tls_key", env)]
    tls_certificate: Option<PathBuf>,

    /// Private key of the certificate: a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_certificate", env)]
    tls_key: Option<PathBuf>,

    /// Accept HTTP/2 without TLS from clients with prior knowledge.
    #[arg(long, env, value_parser = yes_or_no())]
    h2c: bool,

    /// Size of the file cache, for all workers together. [default: 256M]
    #[arg(long, value_name = "BYTES", value_parser = phalanx_web::amount, env)]
    cache: Option<usize>,

    /// Maximum number of connections; further ones get status 503 and are closed. [default: 100000]
    #[arg(long, value_name = "N", env)]
    max_connections: Option<NonZero<usize>>,

    /// Maximum queueing delay in milliseconds. When requests wait for longer, the server rejects some with status
    /// 503 before processing them, so that admitted ones are answered within about twice this time. 0 disables.
    /// [default: 15]
    #[arg(long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(0..=60_000), env)]
    max_queue_delay: Option<u64>,

    /// Maximum time in seconds for a client to send a whole request. [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400), env)]
    request_timeout: Option<u64>,

    /// Idle timeout of a connection between requests, in seconds. [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400), env)]
    idle_timeout: Option<u64>,

    #[command(flatten)]
    content: Content,

    #[command(flatten)]
    runtime: RuntimeArgs,
}

impl Web {
    pub(crate) fn run(self) -> ExitCode {
        let inherited = match Inherited::of_environment() {
            Ok(inherited) => inherited,
            Err(error) => {
                status::print(error);
                return ExitCode::FAILURE;
            }
        };
        let given = inherited.listen();
        let config = match self.load(given.as_deref()) {
            Ok(config) => config,
            Err(errors) => return settings::invalid(&errors),
        };
        if self.file.print_config {
            return settings::print(&config.to_toml(), |text, here| {
                let mut whole = Config::new();
                whole.read(text, "configuration", here, &mut Origins::default())?;
                Ok(whole.to_toml())
            });
        }
        if self.file.check {
            return settings::check(&config.warnings(), &config.unavailable());
        }
        phalanx::runtime::raise_open_files();
        let served = operate(
            config,
            inherited,
            Arc::new(Service::new(self.file.config.clone(), move || self.load(given.as_deref()))),
        );
        match served {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                status::print(error);
                ExitCode::FAILURE
            }
        }
    }

    /// The configuration from the file, the environment and the flags. Inherited sockets, if `given`, replace all
    /// addresses.
    pub(crate) fn load(&self, given: Option<&[Listen]>) -> Result<Config, Vec<ConfigError>> {
        let (mut config, mut origins) = (Config::new(), Origins::default());
        RuntimeArgs::defaults(&mut config.runtime);
        let read =
            |text: &str, name: &str, base: &Path| config.read(text, name, base, &mut origins);
        self.file.read(read)?;
        self.apply(&mut config, given, &mut origins)?;
        let errors = config.check();
        if errors.is_empty() {
            return Ok(config);
        }
        Err(errors.into_iter().map(|error| error.located(&origins)).collect())
    }

    /// Applies flags and environment variables.
    fn apply(
        &self,
        config: &mut Config,
        given: Option<&[Listen]>,
        origins: &mut Origins,
    ) -> Result<(), Vec<ConfigError>> {
        if let Some(directory) = &self.directory {
            let Some(host) = config.hosts.iter_mut().find(|host| host.server_names.is_empty())
            else {
                let what = "cannot set the root of the default host: all hosts have names";
                return Err(vec![ConfigError::new("DIRECTORY", "host", what)]);
            };
            host.root.clone_from(directory);
        }
        if let Some(host) = config.hosts.iter_mut().find(|host| host.server_names.is_empty()) {
            self.content.apply(host);
        }
        if !self.listen.is_empty() {
            config.listen.clone_from(&self.listen);
        }
        if let Some(given) = given {
            config.listen = given.to_vec();
        }
        self.apply_tls(config)?;
        self.runtime.apply(&mut config.runtime, origins);
        set(&mut config.cache_bytes, self.cache);
        set(&mut config.max_connections, self.max_connections.map(NonZero::get));
        if let Some(wait) = self.max_queue_delay {
            config.max_queue_delay = (wait > 0).then(|| Duration::from_millis(wait));
        }
        let timeouts = &mut config.timeouts;
        set(&mut timeouts.request, self.request_timeout.map(Duration::from_secs));
        set(&mut timeouts.idle, self.idle_timeout.map(Duration::from_secs));
        Ok(())
    }
}

impl Web {
    /// A certificate given by flags belongs to the default host, and enables TLS on all addresses.
    fn apply_tls(&self, config: &mut Config) -> Result<(), Vec<ConfigError>> {
        config.h2c |= self.h2c;
        if let (Some(certificate), Some(key)) = (&self.tls_certificate, &self.tls_key) {
            let Some(host) = config.hosts.iter_mut().find(|host| host.server_names.is_empty())
            else {
                let what = "cannot set the certificate of the default host: all hosts have names";
                return Err(vec![ConfigError::new("--tls-certificate", "host", what)]);
            };
            host.tls = Some(Tls { certificate: certificate.clone(), key: key.clone() });
            for listen in &mut config.listen {
                if listen.scheme == Scheme::Http {
                    listen.scheme = Scheme::Https;
                }
            }
        }
        Ok(())
    }
}
