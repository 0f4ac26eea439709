//! The keys of a bridge.

use std::time::Duration;

use phalanx_config::{Keys, Pass, choices};

use crate::config::bridge::{Bridge, BridgeTls, BridgeTopic, Direction};
use crate::config::values::{Expiry, KeepAlive};

const HOUR: Duration = Duration::from_secs(3600);

choices! {
    Direction as Direction:
        Direction::Out = "out", Direction::In = "in", Direction::Both = "both";
}

impl Keys for Bridge {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        let Self {
            name,
            address,
            topics,
            client_id,
            username,
            password_file,
            clean_start,
            local_clean_start,
            session_expiry,
            keep_alive,
            reconnect_delay,
            max_reconnect_delay,
            no_local,
            retain_as_published,
            loop_detection,
            notification_topic,
            tls,
        } = self;
        pass.section("Bridges");
        pass.required("name", name, "name of the bridge, in the log, metrics and topics of states");
        let help = "addresses of the remote broker, mqtt://HOST:PORT or mqtts:// for TLS; tried in this order";
        pass.required("address", address, help);
        let help = "client identifier at the remote broker, where no other client may have it";
        pass.required("remote-client-id", client_id, help);
        pass.key("remote-username", username, "user name at the remote broker");
        let help = "file whose first line is the password at the remote broker";
        pass.key("remote-password-file", password_file, help);
        let help = "discard the session at the remote broker with each connection, and its messages for this broker";
        pass.key("clean-start", clean_start, help);
        let help = "drop messages for the remote broker while it is not connected";
        pass.key("local-clean-start", local_clean_start, help);
        let help = "lifetime of the session at the remote broker without a connection";
        pass.key_as::<Expiry, _>("session-expiry", session_expiry, help);
        pass.key_as::<KeepAlive, _>("keep-alive", keep_alive, "interval of keep-alive packets");
        let help =
            "delay before the second attempt to connect, which doubles with each further one";
        pass.range("reconnect-delay", reconnect_delay, Duration::from_millis(1)..=HOUR, help);
        let help = "longest delay between attempts to connect";
        let range = Duration::from_millis(1)..=HOUR;
        pass.range("max-reconnect-delay", max_reconnect_delay, range, help);
        let help = "exclude messages that the bridge itself published";
        pass.key("no-local", no_local, help);
        pass.key("retain-as-published", retain_as_published, "keep the retain flag of messages");
        let help = "add the user property bridge-via to messages, and drop those that return";
        pass.key("loop-detection", loop_detection, help);
        let help =
            "topic at the remote broker of the retained state, 1 while connected and 0 otherwise";
        pass.key("notification-topic", notification_topic, help);
        pass.list("topic", topics, BridgeTopic::default);
        pass.optional("tls", tls, "TLS of mqtts addresses; false for the default values");
    }
}

impl Keys for BridgeTopic {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        let Self { pattern, direction, qos, local_prefix, remote_prefix, filter, json_payload } =
            self;
        let help = "topic filter, without the prefixes; empty if each prefix is a whole topic";
        pass.key("pattern", pattern, help);
        pass.key("direction", direction, "direction, seen from this broker");
        pass.range("qos", qos, 0..=2, "highest QoS of forwarded messages");
        let help = "prefix of the topics at this broker, in place of remote-prefix";
        pass.key("local-prefix", local_prefix, help);
        let help = "prefix of the topics at the remote broker, in place of local-prefix";
        pass.key("remote-prefix", remote_prefix, help);
        pass.key("filter", filter, "condition on the content of messages to the remote broker");
        pass.key("json-payload", json_payload, "apply the filter to the fields of JSON payloads");
    }
}

impl Keys for BridgeTls {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        let Self { authorities, certificate, key, alpn } = self;
        let help =
            "PEM file with the authorities of the remote broker; false for those of the system";
        pass.key("ca", authorities, help);
        pass.key("certificate", certificate, "PEM file with the certificate of the bridge");
        pass.key("key", key, "PEM file with the private key of the certificate");
        pass.key("alpn", alpn, "ALPN protocol to request");
    }
}
