//! `phalanx broker`: an MQTT broker.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use phalanx_broker::{
    Config, ConfigError, Inherited, Listen, OpenError, Origins, ServeError, WhenFull, operate,
};

use crate::service::Service;
use crate::settings::{self, FileArgs, RuntimeArgs, set, yes_or_no};
use crate::status;

/// Run an MQTT broker for MQTT 5 and 3.1.1.
///
/// When ready, it prints a line per address to stdout: `listening on mqtt://ADDR:PORT`, or mqtts, ws, wss. SIGHUP
/// reloads the configuration and the files it names; if they contain an error, the old ones remain in effect.
/// SIGINT (Ctrl-C) or SIGTERM shuts down gracefully: clients are notified; a second signal ends the broker at
/// once.
///
/// Without --persistence-dir, state is in memory and lost on exit, and the broker logs a warning.
///
/// Precedence: flag, environment variable, --set, file of --config, default.
///
/// Exit codes: 0 after a requested shutdown; 1 when an address or a file is unavailable, or the journal cannot be
/// read or written; 2 for bad arguments or an invalid configuration. With --check-persistence-dir: 0 if the
/// directory is sound, 1 if it is not, 2 if it cannot be read.
#[derive(Args)]
pub(crate) struct Broker {
    #[command(flatten)]
    file: FileArgs,

    /// Address to listen on: mqtt://ADDR:PORT, mqtts:// for TLS, ws:// for WebSocket, wss:// for both. Port 0
    /// selects a free port; an address alone means mqtt://, and a port alone 127.0.0.1. May be given several
    /// times. Non-loopback addresses require --password-file or --allow-anonymous. Sockets passed by systemd
    /// replace all addresses. [default: mqtt://127.0.0.1:1883]
    #[arg(long, short, value_name = "URL", env, value_delimiter = ',')]
    listen: Vec<Listen>,

    /// Certificate of the TLS addresses: a PEM file with the certificate and its intermediates. A renewed file is
    /// loaded at run time.
    #[arg(long, value_name = "FILE", requires = "tls_key", env)]
    tls_certificate: Option<PathBuf>,

    /// Private key of the certificate: a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_certificate", env)]
    tls_key: Option<PathBuf>,

    /// PEM file with certificate authorities: TLS clients must present a certificate signed by one of them, and
    /// its common name becomes the user name.
    #[arg(long, value_name = "FILE", env)]
    tls_client_ca: Option<PathBuf>,

    /// Accept WebSocket connections from scripts of this origin, for example `https://example.org`; `*` allows
    /// all. May be given several times. Clients other than browsers are not restricted. [default: none]
    #[arg(long, value_name = "ORIGIN", env, value_delimiter = ',')]
    allowed_origins: Vec<String>,

    /// Store sessions, subscriptions, queued and retained messages in this directory, so that they survive a
    /// restart or crash. Messages are acknowledged after they are on disk. Created if missing.
    #[arg(long, value_name = "DIR", env, conflicts_with = "ephemeral")]
    persistence_dir: Option<PathBuf>,

    /// Start even if acknowledged data is missing at the end of the journal, or the whole journal is missing, and
    /// continue with the remaining data. For a single start; without it the broker reports the loss and does not
    /// start.
    #[arg(long)]
    accept_loss: bool,

    /// Keep all state in memory, the default without --persistence-dir, and do not warn about it.
    #[arg(long, env, value_parser = yes_or_no())]
    ephemeral: bool,

    /// Check the persistence directory of a stopped broker, print a summary and exit. Changes nothing.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["persistence_dir", "ephemeral"])]
    check_persistence_dir: Option<PathBuf>,

    /// Require user names and passwords of this file (see `phalanx passwd`).
    #[arg(long, value_name = "FILE", env)]
    password_file: Option<PathBuf>,

    /// File of access rules for publishing and subscribing. Without it, connected clients may do everything.
    #[arg(long, value_name = "FILE", env)]
    acl_file: Option<PathBuf>,

    /// Accept clients without a user name, from any address.
    #[arg(long, env, value_parser = yes_or_no())]
    allow_anonymous: bool,

    /// Maximum packet size accepted from clients in bytes; at most 134217728 with --persistence-dir. [default:
    /// 1048576]
    #[arg(long, value_name = "BYTES", value_parser = phalanx_config::amount, env)]
    max_packet_size: Option<usize>,

    /// Maximum number of connections; CONNECT is rejected beyond. [default: 100000]
    #[arg(long, value_name = "N", env)]
    max_connections: Option<NonZero<usize>>,

    /// Maximum number of connections per address; CONNECT is rejected beyond. [default: unlimited]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), env)]
    max_connections_per_address: Option<u32>,

    /// Maximum number of new connections per second and address; CONNECT is rejected beyond. [default: unlimited]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), env)]
    max_connection_rate: Option<u32>,

    /// Maximum number of messages per second that a client may publish; beyond, the broker pauses reading from
    /// it. [default: unlimited]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), env)]
    max_message_rate: Option<u32>,

    /// Maximum number of subscriptions per client; SUBSCRIBE is rejected beyond. [default: 100000]
    #[arg(long, value_name = "N", env)]
    max_subscriptions: Option<usize>,

    /// When a client's queue is full, drop its oldest queued messages of QoS 0 rather than new messages.
    #[arg(long, env, value_parser = yes_or_no())]
    drop_oldest: bool,

    /// Maximum keep-alive of MQTT 5 clients in seconds; imposed on clients that request a longer one or none.
    /// [default: unlimited]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..), env)]
    max_keep_alive: Option<u16>,

    /// Maximum number of messages queued per slow or disconnected client; further ones are dropped and counted.
    /// [default: 10000]
    #[arg(long, value_name = "N", env)]
    max_queued_messages: Option<usize>,

    /// Interval in seconds at which the topics below `$SYS/broker` are updated; 0 disables them. [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86_400), env)]
    sys_interval: Option<u64>,

    #[command(flatten)]
    runtime: RuntimeArgs,
}

impl Broker {
    pub(crate) fn run(self) -> ExitCode {
        if let Some(path) = &self.check_persistence_dir {
            return check(path);
        }
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
        if config.persistence_dir.is_none() && !config.ephemeral {
            status::print(
                "sessions and messages are in memory and lost on exit; set --persistence-dir DIR to store them, or \
                 --ephemeral to disable this warning",
            );
        }
        phalanx::runtime::raise_open_files();
        let service = Service::new(self.file.config.clone(), move || self.load(given.as_deref()));
        match operate(config, inherited, Arc::new(service)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                status::print(error);
                ExitCode::FAILURE
            }
        }
    }

    /// The configuration from the file, the environment and the flags. Inherited sockets, if `given`, replace all
    /// addresses.
    fn load(&self, given: Option<&[Listen]>) -> Result<Config, Vec<ConfigError>> {
        let (mut config, mut origins) = (Config::new(), Origins::default());
        RuntimeArgs::defaults(&mut config.runtime);
        let read =
            |text: &str, name: &str, base: &Path| config.read(text, name, base, &mut origins);
        self.file.read(read)?;
        self.apply(&mut config, &mut origins);
        if let Some(given) = given {
            config.listen = given.to_vec();
        }
        let errors = config.check();
        if errors.is_empty() {
            return Ok(config);
        }
        Err(errors.into_iter().map(|error| error.located(&origins)).collect())
    }

    /// Applies flags and environment variables.
    fn apply(&self, config: &mut Config, origins: &mut Origins) {
        if !self.listen.is_empty() {
            config.listen.clone_from(&self.listen);
            origins.record("listen", "--listen");
        }
        let security = &mut config.security;
        for (path, to) in [
            (&self.password_file, &mut security.password_file),
            (&self.acl_file, &mut security.acl_file),
        ] {
            set(to, path.clone().map(Some));
        }
        if self.tls_certificate.is_some() || self.tls_client_ca.is_some() {
            let tls = security.tls.get_or_insert_default();
            set(&mut tls.certificate, self.tls_certificate.clone());
            set(&mut tls.key, self.tls_key.clone());
            set(&mut tls.client_authorities, self.tls_client_ca.clone().map(Some));
        }
        if !self.allowed_origins.is_empty() {
            security.allowed_origins.clone_from(&self.allowed_origins);
        }
        security.allow_anonymous |= self.allow_anonymous;
        if self.persistence_dir.is_some() {
            (config.ephemeral, config.persistence_dir) = (false, self.persistence_dir.clone());
        }
        config.accept_loss = self.accept_loss;
        if self.ephemeral {
            (config.ephemeral, config.persistence_dir) = (true, None);
        }
        let limits = &mut config.limits;
        if self.max_packet_size.is_some() {
            origins.record("max-packet-size", "--max-packet-size");
        }
        set(&mut limits.packet_size, self.max_packet_size);
        set(&mut limits.connections, self.max_connections.map(NonZero::get));
        set(&mut limits.per_address, self.max_connections_per_address.map(Some));
        set(&mut limits.connection_rate, self.max_connection_rate.map(Some));
        set(&mut limits.message_rate, self.max_message_rate.map(Some));
        set(&mut limits.subscriptions, self.max_subscriptions);
        set(&mut limits.queued_messages, self.max_queued_messages);
        if self.drop_oldest {
            limits.when_full = WhenFull::DropOldest;
        }
        set(&mut limits.keep_alive, self.max_keep_alive);
        set(&mut config.system_interval, self.sys_interval.map(Duration::from_secs));
        self.runtime.apply(&mut config.runtime, origins);
    }
}

/// Checks a persistence directory and prints a summary.
fn check(path: &Path) -> ExitCode {
    match phalanx_broker::check_persistence_dir(path) {
        // A wrong directory must not pass for a valid backup.
        Ok(checked) if checked.segments == 0 => {
            let what = "contains no journal: no broker has stored data there";
            status::print(format_args!("{}: {what}", path.display()));
            ExitCode::from(2)
        }
        Ok(checked) => {
            print!("{checked}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            status::print(&error);
            match error {
                ServeError::Open(OpenError::Corrupt { .. } | OpenError::Lost(_))
                | ServeError::Unknown { .. } => ExitCode::FAILURE,
                _ => ExitCode::from(2),
            }
        }
    }
}
