//! What a configuration names and the machine has not: for `phalanx broker --check`, before anybody is let in.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use phalanx_access::{Rules, Users};
use phalanx_tls::{Clients, check, warnings};

use crate::config::{Config, Tls};

impl Config {
    /// What this configuration names and cannot be had: files of users, of rules and of certificates, the directory
    /// of what is kept. Lines for each, none if all is there. Opens what is looked for, and changes nothing; what is
    /// kept is not read, as a broker may be at work there ([`check_persistence_dir`](crate::check_persistence_dir) does). May block.
    pub fn unavailable(&self) -> Vec<String> {
        let mut unavailable = Vec::new();
        let mut wrong = |error: String| unavailable.extend(error.lines().map(str::to_owned));
        let security = &self.security;
        if let Some(Err(error)) = security.password_file.as_deref().map(Users::open) {
            wrong(error.to_string());
        }
        if let Some(Err(error)) = security.acl_file.as_deref().map(Rules::open) {
            wrong(error.to_string());
        }
        if let Some(Tls { certificate, key, client_authorities }) = &security.tls {
            if let Err(error) = check(certificate, key) {
                wrong(error.to_string());
            }
            if let Some(Err(error)) = client_authorities.as_deref().map(Clients::of_authorities) {
                wrong(error.to_string());
            }
        }
        if let Some(data) = &self.persistence_dir
            && let Err(error) = directory(data)
        {
            wrong(format!("cannot keep anything in {}: {error}", data.display()));
        }
        unavailable
    }

    /// What somebody should know of the certificate that this configuration names, one line each: that it
    /// expires soon. Says nothing of one that cannot be used, which is [`unavailable`](Self::unavailable). May block.
    pub fn warnings(&self) -> Vec<String> {
        let Some(Tls { certificate, key, .. }) = &self.security.tls else { return Vec::new() };
        warnings(certificate, key, &[], SystemTime::now())
    }
}

/// Whether there is a directory, or a place where it can be made.
fn directory(path: &Path) -> std::io::Result<()> {
    let there = path.ancestors().find(|path| path.as_os_str().is_empty() || path.exists());
    let there = there.filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::read_dir(there).map(|_| ())
}
