//! Opening the files with users that a configuration names.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::auth::passwords::Passwords;
use crate::auth::users::Users;
use crate::config::{Config, HostConfig};

/// Why a file with users cannot be used. Each names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UsersError {
    /// It cannot be read.
    #[error("cannot read the users in {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Lines of it are wrong.
    #[error("{}", lines(path, wrong))]
    Wrong {
        /// Which.
        path: PathBuf,
        /// The number of a line, from one, and what is wrong with it; 0 is for the whole.
        wrong: Vec<(usize, String)>,
    },
}

fn lines(path: &Path, wrong: &[(usize, String)]) -> String {
    let path = path.display();
    let line = |(line, what): &(usize, String)| match line {
        0 => format!("{path}: {what}"),
        line => format!("{path}:{line}: {what}"),
    };
    wrong.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Opens those of a host, in the order of its rules. May block.
pub(crate) fn open(host: &HostConfig) -> Result<Vec<Arc<Passwords>>, UsersError> {
    host.auth.iter().map(|auth| read(&auth.users)).collect()
}

fn read(path: &Path) -> Result<Arc<Passwords>, UsersError> {
    let text = fs::read(path).map_err(|source| UsersError::Read { path: path.into(), source })?;
    let users =
        Users::parse(&text).map_err(|wrong| UsersError::Wrong { path: path.into(), wrong })?;
    Ok(Arc::new(Passwords::new(users)))
}

/// What somebody should know of the passwords that a configuration asks for, one line each: that they
/// can be read on their way, or by everybody.
pub(crate) fn warnings(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    let rules = || config.hosts.iter().flat_map(|host| &host.auth);
    if rules().next().is_none() {
        return warnings;
    }
    for listen in &config.listen {
        if !listen.tls && !listen.redirect_https && !listen.address.ip().is_loopback() {
            warnings.push(format!(
                "passwords are asked for at {} without TLS: whoever is on the way can read them",
                listen.address
            ));
        }
    }
    let roots: Vec<_> =
        config.hosts.iter().filter_map(|host| host.root.canonicalize().ok()).collect();
    for rule in rules() {
        let Ok(users) = rule.users.canonicalize() else { continue };
        if roots.iter().any(|root| users.starts_with(root)) {
            let users = rule.users.display();
            warnings.push(format!(
                "the users in {users} lie beneath a host's root, where they are served"
            ));
        }
    }
    warnings
}
