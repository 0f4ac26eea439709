//! The cluster: the NATS servers, and this node's name.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use phalanx_config::{ConfigError, Given, Value, Written, settings};
use phalanx_nats::{
    Access, Credentials, JetStreamUse, Limits, Question, ServerAddress, ServerInfo, survey,
};
use phalanx_tls::Connector;

use crate::cluster_names::ClusterNames;
use crate::config::first_line;

settings! {
    /// The cluster that this broker is a node of. Without servers, it is none.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Cluster {
        @section "Cluster";
        /// The NATS servers, tried in this order.
        pub servers: Vec<NatsServer>
            => key("cluster", "be a node of a cluster over these NATS servers, nats://HOST:PORT or tls:// for TLS");
        /// The name of the cluster. Clusters with different names can share NATS servers.
        pub name: String = "mqtt".into()
            => key("cluster-name", "name of the cluster; several can share the NATS servers");
        /// The name of this node, unique in the cluster; empty for the machine's host name.
        pub node: String
            => key("node-name", "name of this node, unique in the cluster; empty for the host name");
        /// The user name at NATS.
        pub username: Option<String> => key("cluster-username", "user name at NATS");
        /// The file whose first line is the password at NATS; without a user name, it is a token.
        pub password_file: Option<PathBuf>
            => key("cluster-password-file",
                "file whose first line is the password at NATS, or a token if there is no user name");
        /// PEM file: the authorities of the servers' certificates; `None` for those of the system.
        pub authorities: Option<PathBuf>
            => key("cluster-ca",
                "PEM file with the authorities of the certificates of NATS, by default those of the system");
        /// Time without a message after which a node or a server is considered lost.
        pub timeout: Duration = Duration::from_secs(5)
            => range("cluster-timeout", Duration::from_millis(500)..=Duration::from_secs(3600),
                "time without a message after which a node or a NATS server is considered lost");
        /// Whether NATS has a copy of the sessions, which another node adopts if this one is lost.
        pub keep_sessions: bool
            => key("cluster-keep-sessions",
                "keep a copy of the persistent sessions in JetStream of NATS: another node adopts them if this one \
                 is lost, and a session moves to the node where its client connects");
    }
}

/// The address of a NATS server, such as `nats://nats.example.org:4222`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsServer(pub ServerAddress);

impl std::str::FromStr for NatsServer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Before the URL is parsed: addresses and errors are shown.
        match text.contains('@') {
            true => Err(
                "set cluster-username and cluster-password-file instead of credentials in the URL"
                    .into(),
            ),
            false => text.parse().map(Self),
        }
    }
}

impl Value for NatsServer {
    fn kind() -> String {
        "url".into()
    }

    fn expected() -> String {
        "a URL such as \"nats://HOST:4222\", or \"tls://HOST\" for TLS; the default port is 4222"
            .into()
    }

    fn read(value: &Given<'_>) -> Result<Self, String> {
        value.as_str().ok_or_else(String::new)?.parse()
    }

    fn print(value: &Self) -> Written {
        value.0.to_string().into()
    }
}

/// Whether a name consists of what names of clusters and nodes may contain.
pub(crate) fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

impl Cluster {
    /// Whether NATS has a copy of the sessions.
    pub(crate) fn keeps(&self) -> bool {
        self.is_on() && self.keep_sessions
    }

    /// The NATS servers that store each copy of the sessions: three or more servers are a cluster of NATS.
    pub(crate) fn replicas(&self) -> u32 {
        if self.servers.len() >= 3 { 3 } else { 1 }
    }

    /// Whether this broker is a node of a cluster.
    pub fn is_on(&self) -> bool {
        !self.servers.is_empty()
    }

    /// The semantic errors.
    pub(super) fn check(&self) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        let mut error_if = |is: bool, key: &str, text: &str| {
            if is {
                let message = format!("found {text:?}, expected letters, digits, `-` and `_`");
                errors.push(ConfigError::for_key(key, &message));
            }
        };
        error_if(self.name.is_empty() || !is_word(&self.name), "cluster-name", &self.name);
        error_if(!is_word(&self.node), "node-name", &self.node);
        errors
    }

    /// This configuration, with the values of `running` for settings that need a restart: all but the servers and the
    /// credentials, and these too if only one of both is a cluster.
    pub(super) fn over_running(&self, running: &Self) -> Self {
        if !self.is_on() || !running.is_on() {
            return running.clone();
        }
        let Self { name, node, timeout, keep_sessions, .. } = running.clone();
        Self { name, node, timeout, keep_sessions, ..self.clone() }
    }

    /// The name of this node. May block.
    ///
    /// # Errors
    /// A description of the unusable setting.
    pub(crate) fn node_name(&self) -> Result<Arc<str>, String> {
        match self.node.as_str() {
            "" => host_name().map(Into::into),
            node => Ok(node.into()),
        }
    }

    /// The servers, and the credentials and authorities as read from their files. May block.
    ///
    /// # Errors
    /// A description of the unusable setting or file.
    pub(crate) fn access(&self) -> Result<Access, String> {
        let secret = self.password_file.as_deref().map(first_line).transpose()?;
        let credentials = match (&self.username, secret) {
            (Some(user), secret) => Credentials::User(user.clone(), secret.unwrap_or_default()),
            (None, Some(token)) => Credentials::Token(token),
            (None, None) => Credentials::None,
        };
        let connector = Connector::load(self.authorities.as_deref(), None, &[]);
        let connector = connector.map_err(|error| error.to_string());
        let connector =
            match self.authorities.is_some() || self.servers.iter().any(|server| server.0.is_tls) {
                true => Some(connector?),
                false => connector.ok(),
            };
        let servers = self.servers.iter().map(|server| server.0.clone()).collect();
        Ok(Access { servers, credentials, connector })
    }
}

/// The oldest version of NATS that is supported: it has headers.
const OLDEST: (u32, u32) = (2, 2);

/// The oldest version with the requests to streams that kept sessions need.
const OLDEST_FOR_KEEPING: (u32, u32) = (2, 9);

const ONE_COPY: &str = "cluster: NATS has one copy of the kept sessions; name three servers of a NATS cluster for three";

/// Time for the replicas of a stream to elect a leader, in seconds, as measured with NATS 2.9.
const ELECTION_SECONDS: u64 = 9;

/// Maximum size of a message of NATS that a node requires, in bytes: a list of claims is smaller.
const MIN_PAYLOAD: usize = 1 << 20;

/// Time for the answers of one server.
const SURVEY: Duration = Duration::from_secs(3);

impl Cluster {
    /// Connects to the NATS servers. Warnings about those that cannot be used now, or have other properties than a
    /// node requires. May block.
    pub(super) fn warnings(&self, persistence_bytes: u64) -> Vec<String> {
        let Ok(access) = self.access() else { return Vec::new() };
        let question = || Question {
            inbox: format!("phalanx.{}.inbox.check-{}", self.name, std::process::id()),
            subjects: ClusterNames::subjects_of(&self.name, &self.node_name().unwrap_or_default()),
        };
        let found = survey(access, SURVEY.min(self.timeout), self.keeps().then(question));
        let warn = |(server, found): (&NatsServer, Result<ServerInfo, String>)| {
            let reason = match found {
                Err(reason) => [Some(format!("{reason}; nodes cannot use this server now")), None],
                Ok(info) => {
                    let keeps =
                        || unsuitable_for_keeping(&info, self.replicas(), persistence_bytes);
                    [unsuitable(&info), self.keeps().then(keeps).flatten()]
                }
            };
            let lines = reason.into_iter().flatten();
            lines.map(|reason| format!("cluster: {}: {reason}", server.0)).collect::<Vec<_>>()
        };
        let copies = (self.keeps() && self.replicas() == 1).then(|| ONE_COPY.to_owned());
        let found = self.servers.iter().zip(found).flat_map(warn);
        found.chain(copies).chain(self.short_timeout()).collect()
    }

    /// The consequence of a timeout that is shorter than an election.
    fn short_timeout(&self) -> Option<String> {
        let is_short = self.timeout.as_secs() < ELECTION_SECONDS;
        (self.keeps() && self.replicas() > 1 && is_short).then(|| {
            format!(
                "cluster: if a NATS server fails, an election may take {ELECTION_SECONDS} s, and all clients may be \
                 disconnected after the cluster-timeout of {} s; set 12 s to keep them connected",
                self.timeout.as_secs()
            )
        })
    }
}

/// Why a server is not suitable for a node.
fn unsuitable(info: &ServerInfo) -> Option<String> {
    let ServerInfo { version, max_payload, .. } = info;
    if let Some(reason) = too_old(version, OLDEST) {
        return Some(reason);
    }
    (*max_payload < MIN_PAYLOAD).then(|| {
        format!(
            "its max_payload is {max_payload} bytes, nodes require {MIN_PAYLOAD}; set max_payload: 1MB or more"
        )
    })
}

/// Why a server is too old.
fn too_old(version: &str, oldest: (u32, u32)) -> Option<String> {
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
    let own = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let (major, minor) = oldest;
    (own < oldest).then(|| {
        format!("it has version {version}, nodes require {major}.{minor} or later; update it")
    })
}

/// Why a server is not suitable for a node that keeps its sessions.
fn unsuitable_for_keeping(
    info: &ServerInfo,
    replicas: u32,
    persistence_bytes: u64,
) -> Option<String> {
    if let Some(reason) = too_old(&info.version, OLDEST_FOR_KEEPING) {
        return Some(reason);
    }
    if replicas > 1 && !info.is_clustered {
        return Some(format!(
            "it is not part of a NATS cluster, which {replicas} copies of the sessions need; add `cluster {{}}`"
        ));
    }
    let JetStreamUse { account, has_stream } = match info.jetstream.as_ref()? {
        Ok(found) => found,
        Err(reason) => return Some(format!("it cannot keep sessions: {reason}")),
    };
    let Limits { max_streams, max_storage } = account.limits;
    if !has_stream && u64::try_from(max_streams).is_ok_and(|max| account.streams >= max) {
        return Some(format!(
            "all {max_streams} streams of the account exist, and each node needs one; raise max_streams"
        ));
    }
    // The bound of a journal.
    let needed = persistence_bytes.saturating_add(persistence_bytes.saturating_mul(5) / 4);
    u64::try_from(max_storage).is_ok_and(|max| max < needed).then(|| {
        format!(
            "the account may store {max_storage} bytes, and the sessions of one node may need {needed}; raise \
             max_file, or lower max-persistence-bytes"
        )
    })
}

/// The machine's host name, as a node's name.
fn host_name() -> Result<String, String> {
    let name = first_line(Path::new("/proc/sys/kernel/hostname"))?;
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
    match name.is_empty() {
        true => Err("the machine has no host name; set node-name".into()),
        false => Ok(name.chars().map(allowed).collect()),
    }
}

#[cfg(test)]
mod tests {
    use phalanx_nats::Account;

    use super::*;

    #[test]
    fn addresses_and_names_are_checked() {
        let server: NatsServer = "nats://a".parse().unwrap();
        assert_eq!(server.0.to_string(), "nats://a:4222");
        for invalid in ["nats://u:hidden@a", "http://u:hidden@a", "nats://u:hidden@a:0"] {
            let error = invalid.parse::<NatsServer>().unwrap_err();
            assert!(
                error.contains("cluster-password-file") && !error.contains("hidden"),
                "{error}"
            );
        }
        let cluster = Cluster { name: "a.b".into(), node: "c d".into(), ..Cluster::default() };
        let errors: Vec<_> = cluster.check().iter().map(ToString::to_string).collect();
        assert!(
            errors[0].contains("cluster-name") && errors[1].contains("node-name"),
            "{errors:?}"
        );
        assert!(!host_name().unwrap().is_empty());
    }

    #[test]
    fn a_timeout_shorter_than_an_election_is_reported() {
        let server: NatsServer = "nats://a".parse().unwrap();
        let of = |servers: usize, seconds| {
            let (servers, timeout) = (vec![server.clone(); servers], Duration::from_secs(seconds));
            Cluster { servers, timeout, keep_sessions: true, ..Cluster::default() }.short_timeout()
        };
        assert!(of(3, 5).unwrap().contains("of 5 s"));
        assert_eq!((of(3, 12), of(1, 5)), (None, None));
    }

    #[test]
    fn servers_are_suitable_by_version_and_limit() {
        let info = |version: &str, max_payload| ServerInfo {
            version: version.to_owned(),
            max_payload,
            is_clustered: false,
            jetstream: None,
        };
        let of = |version: &str, max_payload| unsuitable(&info(version, max_payload));
        assert_eq!(of("2.2.0", MIN_PAYLOAD), None);
        assert_eq!(of("3.0.0-RC.1", MIN_PAYLOAD), None);
        assert!(of("2.1.9", MIN_PAYLOAD).unwrap().contains("2.2 or later"));
        assert!(of("2.10.1", 65_536).unwrap().contains("max_payload is 65536"));
        let keeps = |version: &str, replicas, found| {
            let info = ServerInfo { jetstream: Some(found), ..info(version, MIN_PAYLOAD) };
            unsuitable_for_keeping(&info, replicas, 4000).unwrap_or_default()
        };
        let account = |max_streams, max_storage| {
            let limits = Limits { max_streams, max_storage };
            JetStreamUse { account: Account { streams: 2, storage: 0, limits }, has_stream: false }
        };
        let with_stream = |used| JetStreamUse { has_stream: true, ..used };
        assert_eq!(keeps("2.9.0", 1, Ok(account(-1, -1))), "");
        assert_eq!(keeps("2.9.0", 1, Ok(account(3, 9000))), "");
        assert!(keeps("2.8.4", 1, Ok(account(-1, -1))).contains("2.9 or later"));
        assert!(keeps("2.9.0", 3, Ok(account(-1, -1))).contains("not part of a NATS cluster"));
        assert!(keeps("2.9.0", 1, Ok(account(2, -1))).contains("all 2 streams"));
        assert_eq!(
            keeps("2.9.0", 1, Ok(with_stream(account(2, -1)))),
            "",
            "the node has its stream"
        );
        assert!(keeps("2.9.0", 1, Ok(account(-1, 8999))).contains("may need 9000"));
        assert!(keeps("2.9.0", 1, Err("none".into())).contains("cannot keep sessions: none"));
    }
}
