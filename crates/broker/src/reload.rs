//! A new configuration in the place of the one that a broker goes by, while it does.
//!
//! What may fail is done first: the configuration is checked, and files of users, rules, certificates and
//! authorities are read. Then nothing fails any more, and all of it is put in the place of what was there. Who has
//! connected keeps the limits of connections that it has come with; what may wait for it is bounded anew.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use phalanx_tls::{Certificates, Clients};

use crate::access::{self, Access};
use crate::config::{Config, Tls};
use crate::serve::{ServeError, source};
use crate::settings::{Settings, SharedSettings};

/// Puts new configurations in the place of a running broker's.
pub struct Reloader {
    pub(crate) settings: SharedSettings,
    pub(crate) access: Access,
    pub(crate) tls: Option<(Arc<Certificates>, Option<Clients>)>,
    /// What cannot change is as it was when the broker started.
    pub(crate) running: Config,
}

/// A new configuration is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reloaded {
    /// The files that it names and that were read.
    pub files: Vec<PathBuf>,
    /// Keys whose values differ from those of the start, which hold until the broker is started again.
    pub needs_restart: Vec<String>,
    /// What somebody should know of the certificate, one line each.
    pub warnings: Vec<String>,
}

impl Reloader {
    /// Checks `new`, reads the files that it names, and goes by it from then on, as far as a broker that runs can.
    ///
    /// May block: it is for a thread of its own.
    ///
    /// # Errors
    /// When the configuration is wrong, or something that it names cannot be had. Then nothing changes.
    pub fn reload(&mut self, new: Config) -> Result<Reloaded, ServeError> {
        let mut followed = new.over(&self.running);
        // A new one that is well may not be so together with what stays of the old one.
        for config in [&new, &followed] {
            let errors = config.check();
            if !errors.is_empty() {
                return Err(ServeError::Config(errors));
            }
        }
        let security = &followed.security;
        let policy = access::prepare(&self.access, security)?;
        let mut files: Vec<_> =
            [&security.password_file, &security.acl_file].into_iter().flatten().cloned().collect();
        let mut warnings = Vec::new();
        if let (Some((certificates, clients)), Some(tls)) = (&self.tls, &security.tls) {
            let Tls { certificate, key, client_authorities } = tls;
            let authorities =
                client_authorities.as_deref().map(Clients::of_authorities).transpose()?;
            // The last that may fail.
            warnings = certificates.replace(vec![source(tls)], SystemTime::now())?;
            if let (Some(clients), Some(authorities)) = (clients, &authorities) {
                clients.follow(authorities);
            }
            files.extend([certificate, key].into_iter().chain(client_authorities).cloned());
        }
        let needs_restart = new.left_out(&followed);
        followed.limits.connections =
            followed.runtime.room_for_connections(followed.limits.connections, 0);
        self.access.store(Arc::new(policy));
        let settings = Settings::new(followed, Some(&self.settings.load()));
        self.settings.store(Arc::new(settings));
        Ok(Reloaded { files, needs_restart, warnings })
    }
}
