//! Replacing the configuration of a running server.
//!
//! | file | idea |
//! |---|---|
//! | `listeners` | the listen addresses of all processors |
//! | `inherited` | sockets opened before the server started |
//! | `listener_manager` | an operation on each processor that opens and closes its listeners |
//!
//! Everything that can fail happens first: checking the configuration, opening directories, binding
//! addresses, reading certificates. The replacement that follows cannot fail.

pub(crate) mod inherited;
pub(crate) mod listener_manager;
pub(crate) mod listeners;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use phalanx_tls::Certificates;

use crate::auth::files;
use crate::certificates::sources;
use crate::config::Config;
use crate::error::ServeError;
use crate::reload::listeners::Listeners;
use crate::site::{CurrentSite, Root, Site};

/// Replaces the configuration of a running server.
pub struct Reloader {
    pub(crate) current: CurrentSite,
    /// The running configuration; settings that require a restart keep its values.
    pub(crate) running: Config,
    pub(crate) certificates: Option<Arc<Certificates>>,
    pub(crate) listeners: Listeners,
    /// Set to reopen the access log.
    pub(crate) reopen: Option<Arc<AtomicBool>>,
}

/// Result of a successful reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reloaded {
    /// Version of the configuration; the initial one is 1.
    pub version: u64,
    /// URLs of new addresses, such as `https://127.0.0.1:8443`.
    pub added: Vec<String>,
    /// Keys that have changed and take effect only after a restart.
    pub needs_restart: Vec<String>,
    /// Warnings about certificates and passwords, one line each.
    pub warnings: Vec<String>,
}

impl Reloader {
    /// Checks `config`, opens its files, and applies it to new requests. Requests in progress are finished
    /// with the previous version, and no connection is closed. Files of unchanged hosts stay in the cache.
    /// The access log is reopened.
    ///
    /// Blocks; do not call it on a processor.
    ///
    /// # Errors
    /// If the configuration is invalid, or a file or address is unavailable. Then nothing changes.
    pub fn reload(&mut self, new: Config) -> Result<Reloaded, ServeError> {
        let errors = new.check();
        if !errors.is_empty() {
            return Err(ServeError::Config(errors));
        }
        let needs_restart = new.needs_restart(&self.running);
        let mut config = new.over(&self.running);
        config.max_connections =
            config.runtime.connection_limit(config.max_connections, config.open_files);
        if self.certificates.is_none() && config.listen.iter().any(|listen| listen.tls) {
            return Err(ServeError::NeedsRestart("listen: adding the first address with TLS"));
        }
        let roots = Root::open_all(&config)?;
        let change = self.listeners.prepare(&config)?;
        let mut warnings = match &self.certificates {
            Some(certificates) => certificates.replace(sources(&config), SystemTime::now())?,
            None => Vec::new(),
        };

        warnings.extend(files::warnings(&config));
        let site = Site::new(&config, roots, Some(&self.current.load()));
        let version = site.generation;
        self.current.store(site);
        let added = self.listeners.apply(change);
        if let Some(reopen) = &self.reopen {
            reopen.store(true, Ordering::Relaxed);
        }
        Ok(Reloaded { version, added, needs_restart, warnings })
    }
}
