//! Replacing the configuration of a running server.
//!
//! Everything that can fail happens first: checking the configuration, opening directories, binding
//! addresses, reading certificates. The replacement that follows cannot fail.

use std::sync::Arc;
use std::time::SystemTime;

use phalanx_acme::Manager;
use phalanx_config::differences;
use phalanx_service::{Listeners, Reload, Reloaded};
use phalanx_tls::Certificates;

use crate::auth::files;
use crate::config::{Config, Listen, Scheme};
use crate::error::ServeError;
use crate::log::Logs;
use crate::serve::certificates::{sources, ticket_secret};
use crate::serve::quic_sockets::QuicSockets;
use crate::site::{CurrentSite, Root, Site};

/// Replaces the configuration of a running server.
pub struct Reloader {
    pub(super) current: CurrentSite,
    /// The running configuration; settings that require a restart keep its values.
    pub(super) running: Config,
    pub(super) certificates: Option<Arc<Certificates>>,
    pub(super) listeners: Listeners<Scheme>,
    /// `None` without HTTP/3.
    pub(super) quic: Option<Arc<QuicSockets>>,
    /// Manages certificates from an ACME authority; `None` without TLS.
    pub(super) acme: Option<Arc<Manager>>,
}

impl Reload for Reloader {
    type Config = Config;
    type Error = ServeError;

    /// Requests in progress are finished with the previous configuration, and no connection is closed. Files
    /// of unchanged hosts stay in the cache. The access logs are reopened.
    fn reload(&mut self, new: Config) -> Result<Reloaded, ServeError> {
        let errors = new.check();
        if !errors.is_empty() {
            return Err(ServeError::Config(errors));
        }
        let mut config = new.over_running(&self.running);
        let mut needs_restart = differences(&new, &config);
        // No other key of hosts needs a restart.
        for key in needs_restart.iter_mut().filter(|key| *key == "host") {
            key.push_str(".access-log");
        }
        config.max_connections =
            config.runtime.connection_limit(config.max_connections, config.reserved_files());
        if self.certificates.is_none() && config.listen.iter().any(Listen::is_tls) {
            return Err(ServeError::NeedsRestart("listen: adding the first address with TLS"));
        }
        let mut unavailable = config.unavailable();
        let change = self.listeners.prepare(&config.listen);
        unavailable.extend(change.as_ref().err().map(ToString::to_string));
        if !unavailable.is_empty() {
            return Err(ServeError::Unavailable(unavailable));
        }
        let (change, roots) = (change?, Root::open_all(&config)?);
        let old = self.current.load();
        let logs = Logs::open(&config, Some(&old.logs))?;
        let mut warnings = match &self.certificates {
            Some(certificates) => {
                let secret = ticket_secret(&config)?;
                let warnings = certificates.replace(sources(&config), SystemTime::now())?;
                certificates.tickets().use_secret(secret);
                warnings
            }
            None => Vec::new(),
        };

        warnings.extend(files::warnings(&config));
        logs.reopen();
        let site = Site::new(&config, roots, logs, Some(&old));
        let version = site.generation;
        self.current.store(site);
        let added = self.listeners.apply(change);
        warnings.extend(self.quic.iter().flat_map(|quic| quic.reload(&config)));
        if let Some(acme) = &self.acme
            && let Err(error) = acme.set_plan(config.plan())
        {
            warnings.push(format!("cannot renew certificates: {error}"));
        }
        Ok(Reloaded { added, needs_restart, warnings, version: Some(version), files: Vec::new() })
    }
}
