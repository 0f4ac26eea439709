//! The keys of a broker's configuration, each declared once. Their meaning is documented at the fields and in
//! `docs/broker/configuration.md`.
//!
//! A key that can be set by a flag has the flag's name.

use phalanx_config::{Keys, Pass};

use crate::config::values::{Bytes, DropOldest, Expiry, KeepAlive};
use crate::config::{Config, Limits, Security, Tls};

impl Keys for Config {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        // Destructured, so that the compiler reports a field without a key.
        let Self {
            listen,
            security,
            persistence_dir,
            ephemeral,
            limits,
            system_interval,
            runtime,
            accept_loss: _,
        } = self;
        pass.key("listen", listen);
        pass.path("persistence-dir", persistence_dir);
        pass.key("ephemeral", ephemeral);
        let Security { password_file, acl_file, tls, allowed_origins, allow_anonymous } = security;
        pass.path("password-file", password_file);
        pass.path("acl-file", acl_file);
        pass.key("allow-anonymous", allow_anonymous);
        pass.key("allowed-origins", allowed_origins);
        pass.optional("tls", tls);
        of_limits(limits, pass);
        pass.key("sys-interval", system_interval);
        pass.table("runtime", runtime);
    }
}

fn of_limits(limits: &mut Limits, pass: &mut Pass<'_, '_>) {
    let Limits {
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
    } = limits;
    pass.key("max-connections", connections);
    pass.key("max-connections-per-address", per_address);
    pass.key("max-connection-rate", connection_rate);
    pass.key("max-message-rate", message_rate);
    pass.key("max-sessions", sessions);
    pass.key("max-subscriptions", subscriptions);
    pass.key("max-subscription-bytes", subscription_bytes);
    pass.key("max-packet-size", packet_size);
    pass.key("max-queued-messages", queued_messages);
    pass.key("max-queued-bytes", queued_bytes);
    pass.key_as::<DropOldest, _>("drop-oldest", when_full);
    pass.key("max-inflight-deliveries", inflight_deliveries);
    pass.key("max-retained", retained);
    pass.key("max-retained-bytes", retained_bytes);
    pass.key_as::<Bytes, _>("max-persistence-bytes", persistence_bytes);
    pass.key("receive-maximum", receive_maximum);
    pass.key_as::<KeepAlive, _>("max-keep-alive", keep_alive);
    pass.key("max-topic-alias", topic_alias);
    pass.key_as::<Expiry, _>("max-session-expiry", session_expiry);
    pass.key("connect-timeout", connect);
    pass.key("send-timeout", send);
}

impl Keys for Tls {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        let Self { certificate, key, client_authorities } = self;
        pass.path("certificate", certificate);
        pass.path("key", key);
        pass.path("client-ca", client_authorities);
    }
}
