//! Resources that a configuration names but the machine does not provide: for `phalanx broker --check`.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use phalanx_access::{Rules, Token, Users};
use phalanx_tls::{check, warnings};

use crate::config::{AuthHttp, Config, Limits, Tls};

impl Config {
    /// Errors for files and directories that this configuration names but that cannot be used: password file,
    /// access list, certificates, bridges, cluster, persistence directory. Opens the files and changes nothing. The
    /// journal is not read, because a broker may be using it; [`check_persistence_dir`](crate::check_persistence_dir)
    /// reads it. May block.
    pub fn unavailable(&self) -> Vec<String> {
        let mut unavailable = Vec::new();
        let mut add_error = |error: String| unavailable.extend(error.lines().map(str::to_owned));
        let security = &self.security;
        for error in self.password_files().iter().filter_map(|path| Users::open(path).err()) {
            add_error(error.to_string());
        }
        if let Some(Err(error)) = security.acl_file.as_deref().map(Rules::open) {
            add_error(error.to_string());
        }
        if let Some(Err(error)) = security.admin_token_file.as_deref().map(Token::open) {
            add_error(error.to_string());
        }
        if let Some(Err(error)) = security.jwt.as_ref().map(|jwt| jwt.open(None)) {
            add_error(error.to_string());
        }
        if let Some(Err(error)) = security.auth_http.as_ref().map(AuthHttp::open) {
            add_error(error.to_string());
        }
        for (_, tls) in self.tls_profiles() {
            if let Err(error) = check(&tls.certificate, &tls.key) {
                add_error(error.to_string());
            }
            if let Err(error) = tls.clients() {
                add_error(error.to_string());
            }
        }
        for bridge in &self.bridges {
            if let Err(error) = bridge.credentials() {
                add_error(format!("bridge {}: {error}", bridge.name));
            }
        }
        if self.cluster.is_on()
            && let Err(error) = self.cluster.access().and_then(|_| self.cluster.node_name())
        {
            add_error(format!("cluster: {error}"));
        }
        if let Some(data) = &self.persistence_dir
            && let Err(error) = directory(data)
        {
            add_error(format!("cannot use {}: {error}", data.display()));
        }
        unavailable
    }

    /// Warnings about the configured limits, certificate, passwords and NATS servers, one line each, such as that the
    /// certificate expires soon. Connects to the NATS servers. Empty for unusable files, which [`unavailable`](Self::unavailable) reports. May block.
    pub fn warnings(&self) -> Vec<String> {
        let mut all = Vec::from_iter(self.limits.warning());
        for (_, Tls { certificate, key, .. }) in self.tls_profiles() {
            all.extend(warnings(certificate, key, &[], SystemTime::now()));
        }
        for path in self.password_files() {
            all.extend(Users::open(path).ok().and_then(|users| weak_passwords(&users, path)));
        }
        all.extend(self.cluster.warnings(self.limits.persistence_bytes));
        all
    }
}

impl Limits {
    /// A warning about limits that contradict each other.
    pub(crate) fn warning(&self) -> Option<String> {
        let Self { packet_size, queued_bytes, .. } = self;
        (packet_size > queued_bytes).then(|| {
            format!(
                "max-packet-size ({packet_size} bytes) exceeds max-queued-bytes ({queued_bytes} bytes): the longest \
                 messages are dropped for a client for which others wait; lower max-packet-size or raise max-queued-bytes"
            )
        })
    }
}

/// A warning about passwords whose hashes can be guessed faster than necessary.
pub(crate) fn weak_passwords(users: &Users, path: &Path) -> Option<String> {
    let weak = Some(users.weak_hashes()).filter(|weak| *weak > 0)?;
    Some(format!(
        "{}: {weak} users have hashes of mosquitto_passwd, which can be guessed faster than those of `phalanx passwd`; \
         set their passwords again when possible",
        path.display()
    ))
}

/// Checks that the directory exists, or can be created.
fn directory(path: &Path) -> std::io::Result<()> {
    let there = path.ancestors().find(|path| path.as_os_str().is_empty() || path.exists());
    let there = there.filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::read_dir(there).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_longer_than_a_queue_are_warned_about() {
        let mut config = Config::new();
        config.limits.packet_size = config.limits.queued_bytes;
        assert_eq!(config.warnings(), Vec::<String>::new());
        config.limits.packet_size += 1;
        let warnings = config.warnings();
        assert!(warnings.len() == 1 && warnings[0].starts_with("max-packet-size"), "{warnings:?}");
    }

    #[test]
    fn files_of_the_cluster_are_checked() {
        let mut config = Config::new();
        config.cluster.password_file = Some("/no/such/file".into());
        assert!(config.unavailable().iter().all(|error| !error.starts_with("cluster")));
        config.cluster.servers = vec!["nats://127.0.0.1".parse().unwrap()];
        let errors = config.unavailable();
        assert!(
            errors.iter().any(|error| error.starts_with("cluster: cannot read /no/such/file")),
            "{errors:?}"
        );
    }
}
