//! Replaces the configuration of a running broker.
//!
//! All steps that can fail come first: the checks, and reading users, rules, certificates and authorities. Then
//! everything is replaced. Existing connections keep the settings with which they were accepted, except for the limits of
//! their sessions.

use std::sync::Arc;
use std::time::SystemTime;

use phalanx_config::differences;
use phalanx_service::{Listeners, Reload, Reloaded};
use phalanx_tls::Profile;

use crate::access::{self, Access};
use crate::config::{Cluster, Config, ConfigError, Security, Tls};
use crate::events::EventLog;
use crate::limits::settings::{Settings, SharedSettings};
use crate::link::registry::Bridges;
use crate::listen::Scheme;
use crate::serve::TlsProfiles;
use crate::serve::error::ServeError;

/// Replaces the configuration of a running broker.
pub struct Reloader {
    pub(crate) settings: SharedSettings,
    pub(crate) access: Access,
    pub(crate) tls: TlsProfiles,
    pub(crate) listeners: Listeners<Scheme>,
    pub(crate) events: EventLog,
    pub(crate) bridges: Arc<Bridges>,
    /// The settings at the start. They determine which addresses have certificates and which ways to log in exist.
    pub(crate) running: Config,
}

impl Reload for Reloader {
    type Config = Config;
    type Error = ServeError;

    fn reload(&mut self, new: Config) -> Result<Reloaded, ServeError> {
        // An earlier reload may have changed the values of settings that cannot be removed.
        let current = self.settings.load();
        let mut merged = new.over_running(&current.config);
        // A valid new configuration may be invalid in combination with settings that stay.
        let checked = |errors: Vec<_>| match errors.is_empty() {
            true => Ok(()),
            false => Err(ServeError::Config(errors)),
        };
        checked(new.check())?;
        checked(new.check_logins(&merged, &current.config).err().into_iter().collect())?;
        checked(merged.check())?;
        let Cluster { password_file, authorities, .. } = &merged.cluster;
        let cluster_files = [password_file, authorities].into_iter().flatten().cloned();
        let mut files: Vec<_> = cluster_files.collect();
        if merged.cluster.is_on() {
            // Checked here; the node reads the files again.
            let read =
                merged.cluster.access().map_err(|reason| ConfigError::for_key("cluster", &reason));
            read.map_err(|error| ServeError::Config(vec![error]))?;
        }
        new.check_listeners_follow(&self.running)
            .map_err(|error| ServeError::Config(vec![error]))?;
        let security = &merged.security;
        let policy = access::prepare(&self.access, &merged)?;
        let Security { acl_file, admin_token_file, jwt, .. } = security;
        let client_files = [acl_file, admin_token_file].into_iter().flatten();
        let client_files = client_files.chain(merged.password_files());
        let jwt_files = jwt.iter().flat_map(|jwt| jwt.keys_file.iter().chain(&jwt.keys_ca));
        let http_files = security.auth_http.iter();
        let http_files = http_files.flat_map(|http| http.ca.iter().chain(&http.authorization_file));
        files.extend(client_files.chain(jwt_files).chain(http_files).cloned());
        let mut profiles = Vec::new();
        for (address, tls) in merged.tls_profiles() {
            let Tls { certificate, key, client_authorities, client_revoked } = tls;
            let own = self.tls.iter().find(|(known, _)| *known == address);
            let Some((_, Profile { certificates, clients })) = own else { continue };
            let replacement = certificates.prepare(vec![tls.source()], SystemTime::now())?;
            profiles.push((replacement, clients, tls.clients()?));
            let client_files = client_authorities.iter().chain(client_revoked);
            files.extend([certificate, key].into_iter().chain(client_files).cloned());
        }
        // The last step that can fail.
        let change = self.listeners.prepare(&merged.listen)?;
        let mut warnings: Vec<_> = policy.warnings().chain(merged.limits.warning()).collect();
        for (replacement, clients, authorities) in profiles {
            warnings.extend(replacement.apply());
            if let (Some(clients), Some(authorities)) = (clients, &authorities) {
                clients.follow(authorities);
            }
        }
        let needs_restart = differences(&new, &merged);
        merged.limits.connections = merged.runtime.connection_limit(merged.limits.connections, 0);
        merged.log.apply(&self.events);
        self.access.store(Arc::new(policy));
        let settings = Settings::new(merged, Some(&current));
        self.settings.store(Arc::new(settings));
        self.bridges.wake();
        let added = self.listeners.apply(change);
        Ok(Reloaded { added, needs_restart, warnings, version: None, files })
    }
}
