//! What of a configuration a running broker can change.

use phalanx_config::differences;

use crate::config::{Config, Limits, Security, Tls};
use crate::routing::MOST_PACKET;

impl Config {
    /// This one as far as a broker can take it over that was started with `running`. Who adds a field says here on
    /// which side it is.
    pub(crate) fn over(&self, running: &Self) -> Self {
        let Limits {
            connections,
            per_address,
            connection_rate,
            message_rate,
            sessions,
            subscriptions,
            subscription_bytes,
            packet,
            queue,
            queue_bytes,
            when_full,
            under_way: _,
            retained: _,
            retained_bytes: _,
            data_bytes: _,
            // Clients were told so, and may have begun as much.
            receive_maximum: _,
            keep_alive,
            topic_aliases: _,
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
            // What is kept goes on to be.
            packet: if running.data.is_some() { packet.min(MOST_PACKET) } else { packet },
            queue,
            queue_bytes,
            when_full,
            under_way: old.under_way,
            retained: old.retained,
            retained_bytes: old.retained_bytes,
            data_bytes: old.data_bytes,
            receive_maximum: old.receive_maximum,
            keep_alive,
            topic_aliases: old.topic_aliases,
            session_expiry,
            connect,
            send,
        };
        Self { security: self.security.over(&running.security), limits, ..running.clone() }
    }

    /// The keys that differ from those that a broker goes by, who has taken over what it can.
    pub(crate) fn left_out(&self, followed: &Self) -> Vec<String> {
        differences(&self.to_table(), &followed.to_table())
    }
}

impl Security {
    /// Whether there are passwords, and whether certificates, decides which stages a broker has.
    fn over(&self, running: &Self) -> Self {
        let Self { passwords, access, tls, origins, allow_anonymous } = self.clone();
        let passwords = match (passwords, &running.passwords) {
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
        Self { passwords, access, tls, origins, allow_anonymous }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_change_is_named() {
        let running = Config::new();
        let mut new = running.clone();
        new.limits.queue = 5;
        new.limits.keep_alive = 7;
        new.security.access = Some("rules".into());
        let followed = new.over(&running);
        assert_eq!((&followed, new.left_out(&followed)), (&new, Vec::new()));
        // Each of these is of the start.
        new.listen.clear();
        (new.data, new.limits.data_bytes) = (Some("d".into()), 7);
        (new.limits.retained, new.limits.receive_maximum) = (1, 2);
        new.runtime.pin = false;
        new.security.passwords = Some("users".into());
        new.security.tls = Some(Tls::default());
        let followed = new.over(&running);
        assert_eq!((followed.limits.queue, &followed.security.tls), (5, &None));
        let keys = new.left_out(&followed);
        let all = "data listen max-data max-retained passwords receive-maximum runtime.pin tls";
        assert_eq!(keys.join(" "), all);
    }

    /// Files may be others where there were some.
    #[test]
    fn what_is_there_may_be_elsewhere() {
        let mut running = Config::new();
        running.security.passwords = Some("a".into());
        running.security.tls =
            Some(Tls { certificate: "c".into(), key: "k".into(), client_authorities: None });
        let mut new = running.clone();
        new.security.passwords = Some("b".into());
        new.security.tls = Some(Tls {
            certificate: "d".into(),
            key: "l".into(),
            client_authorities: Some("x".into()),
        });
        let followed = new.over(&running);
        assert_eq!(followed.security.passwords, new.security.passwords);
        let tls = followed.security.tls.as_ref().unwrap();
        assert_eq!((tls.certificate.to_str(), &tls.client_authorities), (Some("d"), &None));
        assert_eq!(new.left_out(&followed), ["tls.client-ca"]);
        new.security.passwords = None;
        assert_eq!(new.over(&running).security.passwords, running.security.passwords);
    }
}
