//! The part of a configuration that can change without a restart.

use phalanx_config::{differences, table};

use crate::config::{Config, Limits, MAX_DURABLE_PACKET, Security, Tls};

impl Config {
    /// This configuration with the fields of `running` for all settings that need a restart. A new field has
    /// to be assigned to one of the two groups here.
    pub(crate) fn over(&self, running: &Self) -> Self {
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
            inflight_deliveries: _,
            retained: _,
            retained_bytes: _,
            persistence_bytes: _,
            // A CONNACK announces this value, and the client may have that many messages in flight.
            receive_maximum: _,
            keep_alive,
            topic_alias: _,
            session_expiry,
            connect,
            send,
        } = self.limits;
        let old = &running.limits;
        let limits = Limits {
            connections,
            per_address,
            connection_rate,
            message_rate,
            sessions,
            subscriptions,
            subscription_bytes,
            // Persistence stays on.
            packet_size: if running.persistence_dir.is_some() {
                packet_size.min(MAX_DURABLE_PACKET)
            } else {
                packet_size
            },
            queued_messages,
            queued_bytes,
            when_full,
            inflight_deliveries: old.inflight_deliveries,
            retained: old.retained,
            retained_bytes: old.retained_bytes,
            persistence_bytes: old.persistence_bytes,
            receive_maximum: old.receive_maximum,
            keep_alive,
            topic_alias: old.topic_alias,
            session_expiry,
            connect,
            send,
        };
        let security = self.security.over(&running.security);
        Self { listen: self.listen.clone(), security, limits, ..running.clone() }
    }

    /// The keys that differ from the settings in force after a reload.
    pub(crate) fn left_out(&self, followed: &Self) -> Vec<String> {
        differences(&table(self), &table(followed))
    }
}

impl Security {
    /// Password and certificate authentication have stages of their own, so they cannot be switched on or
    /// off.
    fn over(&self, running: &Self) -> Self {
        let Self { password_file, acl_file, tls, allowed_origins, allow_anonymous } = self.clone();
        let password_file = match (password_file, &running.password_file) {
            (Some(new), Some(_)) => Some(new),
            (_, old) => old.clone(),
        };
        let tls = match (tls, &running.tls) {
            (Some(new), Some(old)) => Some(Tls {
                client_authorities: match (new.client_authorities, &old.client_authorities) {
                    (Some(new), Some(_)) => Some(new),
                    (_, old) => old.clone(),
                },
                ..new
            }),
            (_, old) => old.clone(),
        };
        Self { password_file, acl_file, tls, allowed_origins, allow_anonymous }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_settings_are_named() {
        let running = Config::new();
        let mut new = running.clone();
        new.limits.queued_messages = 5;
        new.limits.keep_alive = 7;
        new.security.acl_file = Some("rules".into());
        new.listen.clear();
        let followed = new.over(&running);
        assert_eq!((&followed, new.left_out(&followed)), (&new, Vec::new()));
        // All of these need a restart.
        (new.persistence_dir, new.limits.persistence_bytes) = (Some("d".into()), 7);
        (new.limits.retained, new.limits.receive_maximum) = (1, 2);
        new.runtime.pin = true;
        new.security.password_file = Some("users".into());
        new.security.tls = Some(Tls::default());
        let followed = new.over(&running);
        assert_eq!((followed.limits.queued_messages, &followed.security.tls), (5, &None));
        let keys = new.left_out(&followed);
        let all = "max-persistence-bytes max-retained password-file persistence-dir receive-maximum runtime.pin tls";
        assert_eq!(keys.join(" "), all);
    }

    /// The paths of configured files may change.
    #[test]
    fn paths_may_change() {
        let mut running = Config::new();
        running.security.password_file = Some("a".into());
        running.security.tls =
            Some(Tls { certificate: "c".into(), key: "k".into(), client_authorities: None });
        let mut new = running.clone();
        new.security.password_file = Some("b".into());
        new.security.tls = Some(Tls {
            certificate: "d".into(),
            key: "l".into(),
            client_authorities: Some("x".into()),
        });
        let followed = new.over(&running);
        assert_eq!(followed.security.password_file, new.security.password_file);
        let tls = followed.security.tls.as_ref().unwrap();
        assert_eq!((tls.certificate.to_str(), &tls.client_authorities), (Some("d"), &None));
        assert_eq!(new.left_out(&followed), ["tls.client-ca"]);
        new.security.password_file = None;
        assert_eq!(new.over(&running).security.password_file, running.security.password_file);
    }
}
