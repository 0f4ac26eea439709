//! Other brokers, tuned for messages in memory.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::server::{Home, Server};
use crate::error::Error;
use crate::system::process::{self, ReservedPort};

/// All known peers.
pub(crate) const PEERS: [Peer; 3] = [MOSQUITTO, RUMQTTD, MOCHI];

/// Text of a configuration file, by the port to listen on.
type Configuration = fn(u16) -> String;

/// A broker to compare with.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// How to install it.
    pub(crate) install: &'static str,
    /// Names of the tunings, and the text of the configuration file of each.
    tunings: &'static [(&'static str, Configuration)],
    /// Arguments before the configuration file.
    arguments: &'static [&'static str],
    /// Ending of the configuration file, by which some programs recognize its format.
    ending: &'static str,
    /// Environment variable for the number of threads. Without it the peer uses all cores of its process.
    threads: Option<&'static str>,
    /// Arguments that print the version, as its first word with a digit.
    version: &'static [&'static str],
}

/// It has one thread. It writes each message separately. With Nagle's algorithm the kernel combines them into
/// larger segments, which is cheaper for many messages; without it, a single message is not delayed.
const MOSQUITTO: Peer = Peer {
    name: "mosquitto",
    install: "apt-get install mosquitto",
    tunings: &[
        ("mosquitto", |port| mosquitto(port, true)),
        ("mosquitto-nagle", |port| mosquitto(port, false)),
    ],
    arguments: &["-c"],
    ending: "conf",
    threads: None,
    version: &["-h"],
};

fn mosquitto(port: u16, nodelay: bool) -> String {
    format!(
        "listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\nlog_type none\n\
         max_queued_messages 0\nmax_inflight_messages 0\nset_tcp_nodelay {nodelay}\nsys_interval 0\n"
    )
}

/// One thread routes, others read and write. Large segments and batches; no delay between connections.
const RUMQTTD: Peer = Peer {
    name: "rumqttd",
    install: "cargo xtask peers",
    tunings: &[("rumqttd", |port| {
        format!(
            "id = 0\n[router]\nid = 0\nmax_connections = 10000\nmax_outgoing_packet_count = 200\n\
             max_segment_size = 104857600\nmax_segment_count = 10\n\
             [v5.1]\nname = \"v5-1\"\nlisten = \"127.0.0.1:{port}\"\nnext_connection_delay_ms = 0\n\
             [v5.1.connections]\nconnection_timeout_ms = 60000\nmax_payload_size = 1048576\n\
             max_inflight_count = 1000\ndynamic_filters = true\n"
        )
    })],
    arguments: &["-q", "-c"],
    ending: "toml",
    threads: Some("TOKIO_WORKER_THREADS"),
    version: &["--version"],
};

/// Queues and windows that hold all messages in flight, so that none is dropped.
const MOCHI: Peer = Peer {
    name: "mochi-mqtt",
    install: "cargo xtask peers",
    tunings: &[("mochi-mqtt", |port| {
        format!(
            "listeners:\n  - type: \"tcp\"\n    id: \"tcp\"\n    address: \"127.0.0.1:{port}\"\n\
             hooks:\n  auth:\n    allow_all: true\n\
             options:\n  client_net_write_buffer_size: 16384\n  client_net_read_buffer_size: 16384\n  \
             capabilities:\n    maximum_clients: 20000\n    maximum_client_writes_pending: 65535\n    \
             maximum_inflight: 65535\n    receive_maximum: 65535\n    \
             maximum_session_expiry_interval: 4294967295\n    maximum_message_expiry_interval: 86400\n    \
             minimum_protocol_version: 3\n    maximum_qos: 2\n    retain_available: 1\n    \
             wildcard_sub_available: 1\n    sub_id_available: 1\n    shared_sub_available: 1\n    \
             compatibilities:\n      no_inherited_properties_on_ack: true\n\
             logging:\n  level: \"ERROR\"\n"
        )
    })],
    arguments: &["--config"],
    ending: "yaml",
    threads: Some("GOMAXPROCS"),
    version: &[],
};

impl Peer {
    /// Starts a server per tuning; `None` if the peer is not installed.
    pub(crate) fn start(&self, home: &Home<'_>) -> Result<Option<Vec<Server>>, Error> {
        let Some(path) = process::find(self.name) else { return Ok(None) };
        let each = self.tunings.iter().map(|(name, text)| self.tuned(&path, name, *text, home));
        each.collect::<Result<_, Error>>().map(Some)
    }

    fn tuned(
        &self,
        path: &Path,
        name: &str,
        text: Configuration,
        home: &Home<'_>,
    ) -> Result<Server, Error> {
        let port = ReservedPort::take()?;
        let file = home.directory.join(format!("{name}.{}", self.ending));
        fs::write(&file, text(port.number()))?;
        let mut command = Command::new(path);
        command.args(self.arguments).arg(file);
        command.envs(self.threads.map(|name| (name, home.processors.to_string())));
        home.start(name, command, Some(port))
    }
}

/// Versions of the installed peers; empty if a peer does not tell it.
pub(crate) fn versions() -> impl Iterator<Item = (&'static str, Option<String>)> {
    let version = |peer: &Peer| {
        let path = process::find(peer.name)?;
        if peer.version.is_empty() {
            return Some(String::new());
        }
        let output = Command::new(path).args(peer.version).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version =
            text.split_whitespace().find(|word| word.contains(|c: char| c.is_ascii_digit()));
        Some(version.unwrap_or_default().to_owned())
    };
    PEERS.iter().map(move |peer| (peer.name, version(peer)))
}
