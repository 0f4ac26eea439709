//! `phalanx broker`: an MQTT broker.

mod service;

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use phalanx_broker::{
    Config, ConfigError, Listen, OpenError, Origins, ServeError, WhenFull, operate,
};

use self::service::Service;
use crate::settings::{self, FileArgs, RuntimeArgs, set, yes_or_no};
use crate::status;

/// Run an MQTT broker, for MQTT 5 and 3.1.1.
///
/// When it is ready it prints one line on stdout for each address: `listening on mqtt://ADDR:PORT`,
/// or mqtts, ws, wss.
/// SIGHUP has it read its configuration and the files that this names again; if there is a mistake, what was there
/// before stays.
/// SIGINT (Ctrl-C) or SIGTERM asks it to tell its clients and end; a second one ends it at once.
///
/// Without --persistence-dir all is kept in memory, and ends with the broker.
///
/// What is set by a flag wins over its environment variable, that over --set, that over the file of
/// --config, and that over the default.
///
/// Exit codes: 0 after a requested end, 1 when an address or a file cannot be had, or what is kept cannot be
/// read or written, 2 for bad arguments
/// or a configuration with mistakes in it. With --check-persistence-dir: 0 when all is well, 1 when it is not, 2 when it
/// cannot be looked at.
#[derive(Args)]
pub(crate) struct Broker {
    #[command(flatten)]
    file: FileArgs,

    /// Where to listen for MQTT over TCP, or with mqtts://, ws:// or wss:// in front for that; port 0 takes a free one,
    /// and a port alone is one of 127.0.0.1. May be given several times. Addresses that others can reach ask for --password-file or --allow-anonymous.
    /// [default: 127.0.0.1:1883]
    #[arg(long, short, value_name = "ADDR:PORT", env, value_delimiter = ',')]
    listen: Vec<Listen>,

    /// Where to listen for MQTT over TLS. Without --listen, there alone.
    #[arg(long, value_name = "ADDR:PORT", env, value_delimiter = ',', value_parser = phalanx_service::address)]
    tls_listen: Vec<SocketAddr>,

    /// Where to listen for MQTT within WebSockets. Without --listen, there alone.
    #[arg(long, value_name = "ADDR:PORT", env, value_delimiter = ',', value_parser = phalanx_service::address)]
    ws_listen: Vec<SocketAddr>,

    /// Where to listen for MQTT within WebSockets over TLS. Without --listen, there alone.
    #[arg(long, value_name = "ADDR:PORT", env, value_delimiter = ',', value_parser = phalanx_service::address)]
    wss_listen: Vec<SocketAddr>,

    /// The certificate of addresses with TLS: a PEM file, the certificates that lead to the root behind
    /// it. It is looked at again while the broker runs, and a renewed one is taken.
    #[arg(long, value_name = "FILE", requires = "tls_key", env)]
    tls_certificate: Option<PathBuf>,

    /// The certificate's private key: a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_certificate", env)]
    tls_key: Option<PathBuf>,

    /// Authorities, a PEM file: over TLS let in only those with a certificate that one of them has signed, as the
    /// user whom it names (its common name).
    #[arg(long, value_name = "FILE", env)]
    tls_client_ca: Option<PathBuf>,

    /// Let scripts of this page's connect by WebSocket, as `https://example.org`; `*` stands for all pages. May be
    /// given several times. [default: none; who is no browser is let in]
    #[arg(long, value_name = "ORIGIN", env, value_delimiter = ',')]
    allowed_origins: Vec<String>,

    /// Keep sessions, subscriptions, queued and retained messages in this directory, which is made if it is not
    /// there: they survive the broker's end, whatever ends it, and what is acknowledged is on the disk.
    #[arg(long, value_name = "DIR", env, conflicts_with = "ephemeral")]
    persistence_dir: Option<PathBuf>,

    /// Start though acknowledged data is missing at the end of the journal, or all of it is, and go on with what is there.
    /// For one start; without it the broker says what is missing, and does not start.
    #[arg(long)]
    accept_loss: bool,

    /// Keep all in memory only, which is so without --persistence-dir, too; with it nothing is said about that.
    #[arg(long, env, value_parser = yes_or_no())]
    ephemeral: bool,

    /// Look at what a directory has, of a broker that does not run, say so, and end. Nothing is changed.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["persistence_dir", "ephemeral"])]
    check_persistence_dir: Option<PathBuf>,

    /// Let in only the users of this file, by their passwords (`phalanx passwd` sets them).
    #[arg(long, value_name = "FILE", env)]
    password_file: Option<PathBuf>,

    /// Who may publish and subscribe to what: an access list. Without one, who is let in may do everything.
    #[arg(long, value_name = "FILE", env)]
    acl_file: Option<PathBuf>,

    /// Let in those without a user's name too, wherever they come from.
    #[arg(long, env, value_parser = yes_or_no())]
    allow_anonymous: bool,

    /// Bytes of the longest packet that clients may send; with --persistence-dir at most 134217728. [default: 1048576]
    #[arg(long, value_name = "BYTES", value_parser = phalanx_config::amount, env)]
    max_packet_size: Option<usize>,

    /// The most connections at once; CONNECT is refused beyond. [default: 100000]
    #[arg(long, value_name = "N", env)]
    max_connections: Option<NonZero<usize>>,

    /// The most connections of one address; CONNECT is refused beyond. [default: no bound]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), env)]
    max_connections_per_address: Option<u32>,

    /// The most connections that one address may begin in a second; CONNECT is refused beyond. [default: no bound]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), env)]
    max_connection_rate: Option<u32>,

    /// The most messages that one client may publish in a second; it is not listened to while it is ahead.
    /// [default: no bound]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), env)]
    max_message_rate: Option<u32>,

    /// The most subscriptions of one client; SUBSCRIBE is refused beyond. [default: 100000]
    #[arg(long, value_name = "N", env)]
    max_subscriptions: Option<usize>,

    /// Of messages that wait for one client, and are as many as may, drop those of QoS 0 that have waited longest,
    /// not those that come.
    #[arg(long, env, value_parser = yes_or_no())]
    drop_oldest: bool,

    /// The longest keep-alive that a client of MQTT 5 may have; who asks for more, or for none, is told this
    /// one. [default: as long as it likes]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..), env)]
    max_keep_alive: Option<u16>,

    /// Messages that may wait for one client that is slow or away; what comes then is dropped for it, and
    /// counted. [default: 10000]
    #[arg(long, value_name = "N", env)]
    max_queued_messages: Option<usize>,

    /// Seconds between two looks at what the broker tells of itself by topics below `$SYS/broker`; 0 for none.
    /// [default: 10]
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
        let config = match self.load() {
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
        if config.persistence_dir.is_none() && !config.ephemeral {
            status::print(
                "sessions and messages are kept in memory, and end with the broker; --persistence-dir DIR keeps them, \
                 --ephemeral says that this is meant",
            );
        }
        phalanx::runtime::raise_open_files();
        match operate(config, Arc::new(Service::new(self))) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                status::print(error);
                ExitCode::FAILURE
            }
        }
    }

    /// The configuration that the file, the environment and the flags come to.
    fn load(&self) -> Result<Config, Vec<ConfigError>> {
        let (mut config, mut origins) = (Config::new(), Origins::default());
        RuntimeArgs::defaults(&mut config.runtime);
        let read =
            |text: &str, name: &str, base: &Path| config.read(text, name, base, &mut origins);
        self.file.read(read)?;
        self.apply(&mut config, &mut origins);
        let errors = config.check();
        if errors.is_empty() {
            return Ok(config);
        }
        Err(errors.into_iter().map(|error| error.located(&origins)).collect())
    }

    /// Sets what flags and the environment say.
    fn apply(&self, config: &mut Config, origins: &mut Origins) {
        self.apply_listen(config, origins);
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

    /// Addresses that are given take the place of all that the file has.
    fn apply_listen(&self, config: &mut Config, origins: &mut Origins) {
        let mut listen = self.listen.clone();
        listen.extend(self.tls_listen.iter().copied().map(Listen::mqtts));
        listen.extend(self.ws_listen.iter().copied().map(Listen::ws));
        listen.extend(self.wss_listen.iter().copied().map(Listen::wss));
        let Some(first) = listen.first() else { return };
        let flag = match (self.listen.is_empty(), first.tls, first.websocket) {
            (false, ..) => "--listen",
            (_, true, false) => "--tls-listen",
            (_, false, _) => "--ws-listen",
            (_, true, true) => "--wss-listen",
        };
        origins.record("listen", flag);
        config.listen = listen;
    }
}

/// Says what a directory has, and whether that is well.
fn check(path: &Path) -> ExitCode {
    match phalanx_broker::check_persistence_dir(path) {
        // A wrong directory must not pass for a backup.
        Ok(checked) if checked.segments == 0 => {
            let what = "there is no journal in it: no broker has kept anything there";
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
