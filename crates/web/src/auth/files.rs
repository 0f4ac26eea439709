//! Loading the password files named in a configuration.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::sync::Arc;

use phalanx_access::{FileError, Htpasswd};

use crate::auth::passwords::Passwords;
use crate::config::{Auth, Config, HostConfig, Scheme};

/// Loads a host's password files, in the order of its rules. Rules with the same file share its passwords, so that wrong
/// passwords are counted together. May block.
pub(crate) fn open(host: &HostConfig) -> Result<Vec<Arc<Passwords>>, FileError> {
    let mut files = BTreeMap::<&Path, Arc<Passwords>>::new();
    let read =
        |path| -> Result<_, FileError> { Ok(Arc::new(Passwords::new(Htpasswd::open(path)?))) };
    let passwords = host.auth.iter().map(|Auth { users, .. }| match files.entry(users) {
        Entry::Occupied(known) => Ok(known.get().clone()),
        Entry::Vacant(new) => Ok(new.insert(read(users)?).clone()),
    });
    passwords.collect()
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
                "passwords for {} are sent without TLS and can be intercepted",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_with_the_same_file_share_its_passwords() {
        let folder = tempfile::tempdir().unwrap();
        let line = "a:$2y$04$L4Fh0NN61XBvJ/sHDckBXuvFs1DAFBy9t0CWc1Vw4tbStH0R7hkIq";
        let rule = |name: &str| {
            let users = folder.path().join(name);
            std::fs::write(&users, line).unwrap();
            Auth { path: "/**".into(), realm: name.into(), users }
        };
        let auth = vec![rule("first"), rule("second"), rule("first")];
        let passwords = open(&HostConfig { auth, ..HostConfig::new(folder.path()) }).unwrap();
        assert!(Arc::ptr_eq(&passwords[0], &passwords[2]));
        assert_ne!(
            passwords[0].id(),
            passwords[1].id(),
            "a user of one file is not that of another"
        );
    }
}
