//! Loading the password files named in a configuration.

use std::sync::Arc;

use phalanx_access::{FileError, Htpasswd};

use crate::auth::passwords::Passwords;
use crate::config::{Auth, Config, HostConfig, Scheme};

/// Loads a host's password files, in the order of its rules. May block.
pub(crate) fn open(host: &HostConfig) -> Result<Vec<Arc<Passwords>>, FileError> {
    let read = |auth: &Auth| Ok(Arc::new(Passwords::new(Htpasswd::open(&auth.users)?)));
    host.auth.iter().map(read).collect()
}

/// Warnings about the password protection in a configuration, one line each: passwords sent without
/// encryption, and password files below a served root.
pub(crate) fn warnings(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    let rules = || config.hosts.iter().flat_map(|host| &host.auth);
    if rules().next().is_none() {
        return warnings;
    }
    for listen in &config.listen {
        if listen.scheme == Scheme::Http && !listen.address.is_local() {
            warnings.push(format!(
                "passwords are requested at {} without TLS and can be intercepted",
                listen.address
            ));
        }
    }
    let folders = config.hosts.iter().flat_map(|host| {
        std::iter::once(&host.root).chain(host.aliases.iter().map(|alias| &alias.root))
    });
    let roots: Vec<_> = folders.filter_map(|folder| folder.canonicalize().ok()).collect();
    for rule in rules() {
        let Ok(users) = rule.users.canonicalize() else { continue };
        if roots.iter().any(|root| users.starts_with(root)) {
            let users = rule.users.display();
            warnings.push(format!(
                "the password file {users} is below a host's root, where clients may download it"
            ));
        }
    }
    warnings
}
