//! Loading the password files named in a configuration.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::auth::passwords::Passwords;
use crate::auth::users::Users;
use crate::config::{Config, HostConfig, Scheme};

/// A password file is unusable. The message names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UsersError {
    /// The file cannot be read.
    #[error("cannot read the password file {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The file contains invalid lines.
    #[error("{}", lines(path, wrong))]
    Wrong {
        /// Path of the file.
        path: PathBuf,
        /// Line numbers, counted from one, with the error of each line; 0 stands for the whole file.
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

/// Loads a host's password files, in the order of its rules. May block.
pub(crate) fn open(host: &HostConfig) -> Result<Vec<Arc<Passwords>>, UsersError> {
    host.auth.iter().map(|auth| read(&auth.users)).collect()
}

fn read(path: &Path) -> Result<Arc<Passwords>, UsersError> {
    let text = fs::read(path).map_err(|source| UsersError::Read { path: path.into(), source })?;
    let users =
        Users::parse(&text).map_err(|wrong| UsersError::Wrong { path: path.into(), wrong })?;
    Ok(Arc::new(Passwords::new(users)))
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
        if listen.scheme == Scheme::Http && !listen.address.ip().is_loopback() {
            warnings.push(format!(
                "passwords are requested at {} without TLS and can be intercepted",
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
                "the password file {users} is below a host's root, where clients may download it"
            ));
        }
    }
    warnings
}
