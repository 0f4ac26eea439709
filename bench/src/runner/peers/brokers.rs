//! Brokers, tuned for messages in memory.

use super::{Environment, Peer, Tuning};

pub(crate) const BROKERS: [Peer; 3] = [MOSQUITTO, RUMQTTD, MOCHI];

/// It has one thread. It writes each message separately. With Nagle's algorithm the kernel combines them into
/// larger segments, which is cheaper for many messages; without it, a single message is not delayed.
const MOSQUITTO: Peer = Peer {
    program: "mosquitto",
    version: &["-h"],
    install: "apt-get install mosquitto",
    tunings: &[
        Tuning {
            name: "mosquitto",
            configuration: |environment| mosquitto(environment, true),
            arguments: &["-c", "{}.conf"],
        },
        Tuning {
            name: "mosquitto-nagle",
            configuration: |environment| mosquitto(environment, false),
            arguments: &["-c", "{}.conf"],
        },
    ],
    can: |_| true,
    environment: &[],
};

fn mosquitto(environment: &Environment<'_>, nodelay: bool) -> String {
    let port = environment.port;
    format!(
        "listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\nlog_type none\n\
         max_queued_messages 0\nmax_inflight_messages 0\nset_tcp_nodelay {nodelay}\nsys_interval 0\n"
    )
}

/// One thread routes, others read and write. Large segments and batches; no delay between connections.
const RUMQTTD: Peer = Peer {
    program: "rumqttd",
    version: &["--version"],
    install: "cargo xtask peers",
    tunings: &[Tuning {
        name: "rumqttd",
        configuration: rumqttd,
        arguments: &["-q", "-c", "{}.toml"],
    }],
    can: |_| true,
    environment: &[("TOKIO_WORKER_THREADS", "{processors}")],
};

fn rumqttd(environment: &Environment<'_>) -> String {
    let port = environment.port;
    format!(
        "id = 0\n[router]\nid = 0\nmax_connections = 10000\nmax_outgoing_packet_count = 200\n\
         max_segment_size = 104857600\nmax_segment_count = 10\n\
         [v5.1]\nname = \"v5-1\"\nlisten = \"127.0.0.1:{port}\"\nnext_connection_delay_ms = 0\n\
         [v5.1.connections]\nconnection_timeout_ms = 60000\nmax_payload_size = 1048576\n\
         max_inflight_count = 1000\ndynamic_filters = true\n"
    )
}

/// Queues and windows that hold all messages in flight, so that none is dropped.
const MOCHI: Peer = Peer {
    program: "mochi-mqtt",
    version: &[],
    install: "cargo xtask peers",
    tunings: &[Tuning {
        name: "mochi-mqtt",
        configuration: mochi,
        arguments: &["--config", "{}.yaml"],
    }],
    can: |_| true,
    environment: &[("GOMAXPROCS", "{processors}")],
};

fn mochi(environment: &Environment<'_>) -> String {
    let port = environment.port;
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
}
