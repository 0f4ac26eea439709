//! The keys of a broker's configuration, each declared once.

use std::time::Duration;

use phalanx_config::{Keys, Pass, Size};

use crate::config::values::{DropOldest, Expiry, KeepAlive};
use crate::config::{Bridge, Config, Limits, ListenerConfig, LogConfig, Security, Tls};

const MILLISECOND: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(86_400);

impl Keys for Config {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        // Destructured, so that the compiler reports a field without a key.
        let Self {
            listen,
            listeners,
            security,
            persistence_dir,
            ephemeral,
            content_filters,
            limits,
            bridges,
            cluster,
            system_interval,
            log,
            runtime,
            accept_loss: _,
            seed: _,
        } = self;
        let help = "listen addresses: mqtt://ADDR:PORT, mqtts:// for TLS, ws:// for WebSocket, wss:// for both; port 0 \
                    selects a free port, an address alone means mqtt://, and a port alone 127.0.0.1; addresses other \
                    than loopback require password-file, jwt, auth-http, allow-anonymous or, for TLS, tls.client-ca; sockets \
                    passed by systemd replace this list";
        pass.key("listen", listen, help);
        pass.include();
        let help = "directory of sessions, subscriptions, queued and retained messages, which survive a restart or \
                    crash; messages are acknowledged after they are on disk; created if missing";
        let stored = pass.key("persistence-dir", persistence_dir, help);
        let help = "keep all state in memory, the default without persistence-dir, and do not warn about it";
        match (stored, pass.key("ephemeral", ephemeral, help)) {
            // Each overrides the other one of an earlier source.
            (true, false) if persistence_dir.is_some() => *ephemeral = false,
            (false, true) if *ephemeral => *persistence_dir = None,
            _ => (),
        }
        let help = "subscriptions may filter messages by content; false takes ? and $where in topic filters literally";
        pass.key("content-filters", content_filters, help);
        let help = "interval of updates to the topics below `$SYS/broker`; 0 disables them";
        pass.range("sys-interval", system_interval, Duration::ZERO..=DAY, help);
        security.keys(pass);
        limits.keys(pass);
        log.keys(pass);
        cluster.keys(pass);
        pass.list("listener", listeners, ListenerConfig::default);
        pass.list("bridge", bridges, Bridge::default);
        pass.table("runtime", runtime);
    }
}

impl Keys for Security {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        let Self {
            password_file,
            acl_file,
            tls,
            protocols,
            logins,
            certificate_user,
            user_as_client_id,
            allowed_origins,
            admin_token_file,
            allow_anonymous,
            jwt,
            auth_http,
        } = self;
        pass.section("Access");
        let help = "require user names and passwords of this file (see phalanx passwd)";
        pass.key("password-file", password_file, help);
        let help = "access rules for publishing and subscribing; without them, connected clients may do everything";
        pass.key("acl-file", acl_file, help);
        let help = "accept clients without a user name, from any address";
        pass.key("allow-anonymous", allow_anonymous, help);
        let help = "accepted ways to log in, of those that are configured";
        pass.key("logins", logins, help);
        let help = "accepted versions of MQTT";
        pass.key("protocols", protocols, help);
        let help = "the common name of a client's certificate is its user name; otherwise clients with a certificate log \
                    in like others";
        pass.key("certificate-user", certificate_user, help);
        let help = "replace the client identifier of a client with a user name by that name";
        pass.key("user-as-client-id", user_as_client_id, help);
        let help = "origins of web pages whose scripts may connect by WebSocket, such as https://example.org; * allows \
                    all; clients other than browsers are not restricted";
        pass.key("allowed-origins", allowed_origins, help);
        let help = "file with the token of operators, which enables the admin API at /broker of the address of \
                    runtime.admin";
        pass.key("admin-token-file", admin_token_file, help);
        pass.optional("tls", tls, "certificate of the TLS addresses");
        pass.optional("jwt", jwt, "accept JSON Web Tokens as passwords");
        let help = "let an HTTP service decide about logins, instead of a password file, and about access to topics";
        pass.optional("auth-http", auth_http, help);
    }
}

impl Keys for Limits {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        let Self {
            connections,
            per_address,
            connection_rate,
            message_rate,
            sessions,
            subscriptions,
            subscription_bytes,
            packet_size,
            queued_messages,
            queued_bytes,
            inflight_messages,
            when_full,
            inflight_deliveries,
            retained,
            retained_bytes,
            persistence_bytes,
            receive_maximum,
            keep_alive,
            topic_alias,
            session_expiry,
            connect,
            send,
        } = self;
        pass.section("Limits");
        let help = "number of connections; CONNECT is rejected beyond";
        pass.range("max-connections", connections, 1.., help);
        let help = "concurrent connections of one address";
        pass.range("max-connections-per-address", per_address, Some(1).., help);
        let help = "new connections of one address per second";
        pass.range("max-connection-rate", connection_rate, Some(1).., help);
        let help = "messages that one client may publish per second";
        pass.range("max-message-rate", message_rate, Some(1).., help);
        pass.range("max-sessions", sessions, 1.., "number of sessions");
        pass.key("max-subscriptions", subscriptions, "subscriptions of one client");
        let help = "approximate memory of all subscriptions, each counted as if it shared no memory with others; a \
                    content filter counts 16 times its text, and 20 bytes for each condition of its alternatives";
        pass.key_as::<Size, _>("max-subscription-bytes", subscription_bytes, help);
        let help = "size of a packet from a client; with persistence-dir at most 128M";
        let most = phalanx_mqtt::Frame::MAX_BODY;
        pass.range_as::<Size, _>("max-packet-size", packet_size, 128..=most, help);
        let help = "messages queued for one slow or disconnected client; further ones are dropped and counted";
        pass.key("max-queued-messages", queued_messages, help);
        let help = "size of the messages queued for one client and in flight to it; one that waits alone may exceed it";
        pass.key_as::<Size, _>("max-queued-bytes", queued_bytes, help);
        let help = "QoS 1 and 2 messages in flight to one client, if its receive maximum is not lower; further ones \
                    are queued";
        pass.range("max-inflight-messages", inflight_messages, 1.., help);
        let help =
            "when a client's queue is full, drop its oldest QoS 0 messages instead of new messages";
        pass.key_as::<DropOldest, _>("drop-oldest", when_full, help);
        let help = "concurrent deliveries from publishers to sessions; publishers wait beyond";
        pass.range("max-inflight-deliveries", inflight_deliveries, 1.., help);
        pass.key("max-retained", retained, "retained messages");
        let help = "size of the retained messages, including their index";
        pass.key_as::<Size, _>("max-retained-bytes", retained_bytes, help);
        let help = "size of the live data in persistence-dir";
        pass.key_as::<Size, _>("max-persistence-bytes", persistence_bytes, help);
        let help = "incomplete QoS 2 messages from one client of MQTT 5";
        pass.range("receive-maximum", receive_maximum, 1.., help);
        let help = "topic aliases that a client may use on one connection";
        pass.key("max-topic-alias", topic_alias, help);
        pass.section("Timeouts");
        let help = "time until CONNECT, including TLS and the WebSocket upgrade";
        pass.range("connect-timeout", connect, MILLISECOND..=DAY, help);
        let help = "time for a client to read 256 KiB of its output";
        pass.range("send-timeout", send, MILLISECOND..=DAY, help);
        let help =
            "keep-alive of MQTT 5 clients; imposed on clients that request a longer one or none";
        pass.key_as::<KeepAlive, _>("max-keep-alive", keep_alive, help);
        let help = "lifetime of a session without a connection";
        pass.key_as::<Expiry, _>("max-session-expiry", session_expiry, help);
    }
}

impl Keys for LogConfig {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        let Self { events, format, rate } = self;
        pass.section("Event log");
        let help =
            "log these events on stderr, one line each, with client, user, address and reason";
        pass.key("log-events", events, help);
        pass.key("log-format", format, "format of these lines");
        let help = "lines of each kind of event per second; further events are counted, and their number is logged";
        pass.range("log-rate", rate, 1.., help);
    }
}

impl Keys for Tls {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        let Self { certificate, key, client_authorities, client_revoked } = self;
        let help = "PEM file with the certificate and its intermediates; a renewed file is loaded at run time";
        pass.required("certificate", certificate, help);
        pass.required("key", key, "PEM file with the private key of the certificate");
        let help = "PEM file with certificate authorities: TLS clients must present a certificate signed by one of \
                    them, and its common name becomes the user name";
        pass.key("client-ca", client_authorities, help);
        let help = "PEM file with the current revocation list of each issuer of client certificates; revoked certificates \
                    are rejected";
        pass.key("client-crl", client_revoked, help);
    }
}
