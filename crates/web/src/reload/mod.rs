//! A new configuration in the place of the one that is served, while it is.
//!
//! | file | idea |
//! |---|---|
//! | `operator` | who is asked for a new configuration, and told of the server's life |
//! | `listeners` | where the server listens, as all processors are to have it |
//! | `inherited` | sockets that were open before the server was |
//! | `listener_manager` | an operation of each processor that opens and shuts its listeners |
//!
//! What may fail is done first: the configuration is checked, directories are opened, addresses bound,
//! certificates read. Then nothing fails any more, and all of it is put in the place of what was there.

pub(crate) mod inherited;
pub(crate) mod listener_manager;
pub(crate) mod listeners;
pub(crate) mod operator;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use phalanx_tls::Certificates;

use crate::auth::files;
use crate::config::Config;
use crate::reload::listeners::Listeners;
use crate::serve::{ServeError, open_roots, sources};
use crate::site::{CurrentSite, Site};

/// Puts new configurations in the place of a running server's.
pub struct Reloader {
    pub(crate) current: CurrentSite,
    /// What cannot change is as it was when the server started.
    pub(crate) running: Config,
    pub(crate) certificates: Option<Arc<Certificates>>,
    pub(crate) listeners: Listeners,
    /// Has the access log opened anew.
    pub(crate) reopen: Option<Arc<AtomicBool>>,
}

/// A new configuration is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reloaded {
    /// Which one it is: that of the start is 1.
    pub version: u64,
    /// Where the server is found now and was not before, as `https://127.0.0.1:8443`.
    pub added: Vec<String>,
    /// Keys whose values differ from those of the start, which hold until the server is started again.
    pub needs_restart: Vec<String>,
    /// What somebody should know of certificates and passwords, one line each.
    pub warnings: Vec<String>,
}

impl Reloader {
    /// Checks `config`, opens what it names, and serves by it from the next request on; requests
    /// under way are finished by the version that they began with, and no connection is closed. Files
    /// of hosts that have not changed stay in the cache. The access log is opened anew.
    ///
    /// May block: it is for a thread of its own.
    ///
    /// # Errors
    /// When the configuration is wrong, or something that it names cannot be had. Then nothing changes.
    pub fn reload(&mut self, new: Config) -> Result<Reloaded, ServeError> {
        let errors = new.check();
        if !errors.is_empty() {
            return Err(ServeError::Config(errors));
        }
        let needs_restart = new.needs_restart(&self.running);
        let mut config = new.over(&self.running);
        config.max_connections =
            config.runtime.room_for_connections(config.max_connections, config.open_files);
        if self.certificates.is_none() && config.listen.iter().any(|listen| listen.tls) {
            return Err(ServeError::NeedsRestart("listen: the first address with TLS"));
        }
        let roots = open_roots(&config)?;
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
