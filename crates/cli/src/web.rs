//! `phalanx web`: serve a directory.

use std::net::SocketAddr;
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
use phalanx_web::{Config, ConfigError, Inherited, Listen, Origins, Tls, operate};

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

    #[command(flatten)]
    file: FileArgs,

    /// Where to listen; port 0 takes a free one, and a port alone is one of 127.0.0.1. May be given several
    /// times. Sockets that systemd hands over take the place of all.
    /// [default: 127.0.0.1:8080]
    #[arg(long, short, value_name = "ADDR:PORT", env, value_delimiter = ',')]
    listen: Vec<Listen>,

    /// Serve over TLS, with this certificate: a PEM file, the certificates that lead to the root
    /// behind it. It is looked at again while the server runs, and a renewed one is taken.
    #[arg(long, value_name = "FILE", requires = "tls_key", env)]
    tls_certificate: Option<PathBuf>,

    /// The certificate's private key: a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_certificate", env)]
    tls_key: Option<PathBuf>,

    /// Also listen here, without TLS, to send clients to where there is TLS.
    #[arg(
        long,
        value_name = "ADDR:PORT",
        requires = "tls_certificate",
        value_parser = phalanx_service::address,
        env
    )]
    redirect_http: Option<SocketAddr>,

    /// Speak HTTP/2 without TLS too, to clients that begin with it.
    #[arg(long, env, value_parser = yes_or_no())]
    h2c: bool,

    /// Memory for files' contents, over all processors. [default: 256M]
    #[arg(long, value_name = "BYTES", value_parser = phalanx_web::amount, env)]
    cache: Option<usize>,

    /// The most connections at once; more are answered with 503 and closed. [default: 100000]
    #[arg(long, value_name = "N", env)]
    max_connections: Option<NonZero<usize>>,

    /// Milliseconds that work may wait in an overloaded server. When it waits for longer, requests
    /// are refused with 503 before anything is done for them, so that those let in are answered in
    /// up to about twice this time. 0 never refuses any. [default: 15]
    #[arg(long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(0..=60_000), env)]
    max_queue_delay: Option<u64>,

    /// Seconds that a client has for the whole of a request. [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400), env)]
    request_timeout: Option<u64>,

    /// Seconds that a connection may be idle between requests. [default: 60]
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
            Err(errors) => return settings::mistaken(&errors),
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
        let served = operate(config, inherited, Arc::new(Service::new(self, given)));
        match served {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                status::print(error);
                ExitCode::FAILURE
            }
        }
    }

    /// The configuration that the file, the environment and the flags come to. Where it listens may be
    /// `given`: then nothing else decides it.
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

    /// Sets what flags and the environment say.
    fn apply(
        &self,
        config: &mut Config,
        given: Option<&[Listen]>,
        origins: &mut Origins,
    ) -> Result<(), Vec<ConfigError>> {
        if let Some(directory) = &self.directory {
            let Some(host) = config.hosts.iter_mut().find(|host| host.server_names.is_empty())
            else {
                let what = "there is no default host whose root it could be: all have names";
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
    /// A certificate that is given by flags is the default host's, and all addresses have TLS then.
    fn apply_tls(&self, config: &mut Config) -> Result<(), Vec<ConfigError>> {
        config.h2c |= self.h2c;
        if let (Some(certificate), Some(key)) = (&self.tls_certificate, &self.tls_key) {
            let Some(host) = config.hosts.iter_mut().find(|host| host.server_names.is_empty())
            else {
                let what = "there is no default host whose certificate it could be: all have names";
                return Err(vec![ConfigError::new("--tls-certificate", "host", what)]);
            };
            host.tls = Some(Tls { certificate: certificate.clone(), key: key.clone() });
            config.listen.iter_mut().for_each(|listen| listen.tls = !listen.redirect_https);
        }
        config.listen.extend(self.redirect_http.map(Listen::redirect_https));
        Ok(())
    }
}
