//! The part of a configuration that can change without a restart.

use phalanx_config::ConfigError;

use crate::config::{Config, Limits, MAX_DURABLE_PACKET, Security, Tls};

impl Config {
    /// This configuration, with the values of `running`, the one in force, for settings that need a restart. These are
    /// all settings that are not listed here.
    pub(crate) fn over_running(&self, running: &Self) -> Self {
        let new = &self.limits;
        let packet_size = match running.persistence_dir {
            // Persistence stays on.
            Some(_) => new.packet_size.min(MAX_DURABLE_PACKET),
            None => new.packet_size,
        };
        // `receive_maximum` stays: a CONNACK announces it, and the client may have that many messages in flight.
        let limits = Limits {
            connections: new.connections,
            per_address: new.per_address,
            connection_rate: new.connection_rate,
            message_rate: new.message_rate,
            sessions: new.sessions,
            subscriptions: new.subscriptions,
            subscription_bytes: new.subscription_bytes,
            packet_size,
            queued_messages: new.queued_messages,
            queued_bytes: new.queued_bytes,
            inflight_messages: new.inflight_messages,
            when_full: new.when_full,
            keep_alive: new.keep_alive,
            session_expiry: new.session_expiry,
            connect: new.connect,
            send: new.send,
            ..running.limits.clone()
        };
        let security = self.security.over_running(&running.security);
        let (listen, log) = (self.listen.clone(), self.log.clone());
        let (bridges, cluster) =
            (self.bridges.clone(), self.cluster.over_running(&running.cluster));
        let (listeners, content_filters) = (self.listeners.clone(), self.content_filters);
        Self {
            listen,
            listeners,
            content_filters,
            security,
            limits,
            bridges,
            cluster,
            log,
            ..running.clone()
        }
    }

    /// Checks that the ways to log in of this configuration can replace those of `running`. `merged` is the
    /// configuration after the reload.
    pub(crate) fn check_logins(&self, merged: &Self, running: &Self) -> Result<(), ConfigError> {
        let at = |config: &Self, address| match address {
            Some(address) => config.at(address).security,
            None => config.at_other_addresses().security,
        };
        // Also at addresses whose settings are removed.
        let all = [self, running].map(|config| config.listeners.iter());
        let all = all.into_iter().flatten().map(|listener| Some(listener.address.address));
        for address in all.chain([None]) {
            Security::check_logins(
                &at(self, address),
                &at(merged, address),
                &at(running, address),
            )?;
        }
        Ok(())
    }
}

impl Security {
    /// Like [`Config::check_logins`], at one address.
    fn check_logins(new: &Self, merged: &Self, old: &Self) -> Result<(), ConfigError> {
        let error = |key, message| Err(ConfigError::for_key(key, message));
        if merged.password_file.is_some() && merged.has_login_service() {
            return error("auth-http", "`password-file` stays until a restart; restart to apply");
        }
        let would_open = old.has_logins() && !new.allow_anonymous;
        match (merged.has_logins(), new.has_logins()) {
            (false, true) => error(
                "password-file",
                "is used after a restart only, and anyone could log in until then; restart to apply",
            ),
            (false, false) if would_open => error(
                "allow-anonymous",
                "no way to log in is left, so anyone could connect; restart to apply, or set --allow-anonymous",
            ),
            _ => Ok(()),
        }
    }

    /// Whether there are users. Otherwise all clients are anonymous.
    pub(crate) fn has_logins(&self) -> bool {
        self.password_file.is_some() || self.jwt.is_some() || self.has_login_service()
    }

    /// Whether an HTTP service decides about logins.
    pub(crate) fn has_login_service(&self) -> bool {
        self.auth_http.as_ref().is_some_and(|service| service.login_url.is_some())
    }

    /// Password and certificate authentication have stages of their own, so they cannot be switched on or
    /// off.
    fn over_running(&self, running: &Self) -> Self {
        let Self { password_file, tls, .. } = self.clone();
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
        Self { password_file, tls, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use phalanx_config::differences;

    use super::*;
    use crate::config::{AuthHttp, JwtConfig};

    #[test]
    fn fixed_settings_are_named() {
        let running = Config::new();
        let mut new = running.clone();
        new.limits.queued_messages = 5;
        new.limits.keep_alive = 7;
        new.log.rate = 7;
        new.bridges.push(crate::Bridge::default());
        new.security.acl_file = Some("rules".into());
        new.listen.clear();
        let merged = new.over_running(&running);
        assert_eq!((&merged, differences(&new, &merged)), (&new, Vec::new()));
        // All of these need a restart.
        (new.persistence_dir, new.limits.persistence_bytes) = (Some("d".into()), 7);
        (new.limits.retained, new.limits.receive_maximum) = (1, 2);
        new.runtime.pin = true;
        new.security.password_file = Some("users".into());
        new.security.tls = Some(Tls::default());
        let merged = new.over_running(&running);
        assert_eq!((merged.limits.queued_messages, &merged.security.tls), (5, &None));
        let keys = differences(&new, &merged);
        let all = "max-persistence-bytes max-retained password-file persistence-dir receive-maximum runtime.pin tls";
        assert_eq!(keys.join(" "), all);
    }

    /// A configuration with one way to log in, or none.
    fn with(login: &str) -> Config {
        let mut config = Config::new();
        match login {
            "password-file" => config.security.password_file = Some("users".into()),
            "jwt" => config.security.jwt = Some(JwtConfig::default()),
            "auth-http" => {
                let login_url = Some("https://a".into());
                config.security.auth_http = Some(AuthHttp { login_url, ..AuthHttp::default() });
            }
            _ => (),
        }
        config
    }

    #[test]
    fn a_reload_opens_no_broker() {
        let all = ["password-file", "jwt", "auth-http", "none"];
        for (old, new) in all.into_iter().flat_map(|old| all.map(|new| (old, new))) {
            let wanted = match (old, new) {
                ("password-file", "auth-http") => Err("auth-http"),
                ("jwt" | "auth-http" | "none", "password-file") => Err("password-file"),
                ("jwt" | "auth-http", "none") => Err("allow-anonymous"),
                _ => Ok(()),
            };
            let (old_config, mut new_config) = (with(old), with(new));
            let check = |new: &Config| {
                let merged = new.over_running(&old_config);
                let checked = new.check_logins(&merged, &old_config);
                let stays =
                    merged.security.has_logins() || old == "none" || new.security.allow_anonymous;
                assert!(checked.is_err() || stays, "{old} to {new:?}");
                checked.map_err(|error| error.to_string())
            };
            let checked = check(&new_config);
            match wanted {
                Ok(()) => assert_eq!(checked, Ok(()), "{old} to {new}"),
                Err(key) => {
                    let error = checked.unwrap_err();
                    assert!(
                        error.contains(key) && error.contains("restart"),
                        "{old} to {new}: {error}"
                    );
                }
            }
            new_config.security.allow_anonymous = true;
            assert_eq!(
                check(&new_config).is_err(),
                wanted.is_err() && new != "none",
                "{old} to {new}"
            );
        }
        // The start had no way to log in, and an earlier reload has added one.
        let (start, new) = (with("none"), with("none"));
        assert!(new.check_logins(&new.over_running(&start), &with("jwt")).is_err());
    }

    #[test]
    fn servers_and_credentials_of_a_cluster_may_change() {
        let mut running = Config::new();
        running.cluster.servers = vec!["nats://a".parse().unwrap()];
        let mut new = running.clone();
        new.cluster.servers.push("tls://b".parse().unwrap());
        new.cluster.username = Some("u".into());
        new.cluster.password_file = Some("p".into());
        new.cluster.authorities = Some("c".into());
        assert_eq!(new.over_running(&running), new);
        (new.cluster.node, new.cluster.name) = ("n".into(), "other".into());
        let merged = new.over_running(&running);
        assert_eq!(differences(&new, &merged), ["cluster-name", "node-name"]);
        new.cluster.servers.clear();
        assert_eq!(new.over_running(&running).cluster, running.cluster);
    }

    /// The paths of configured files may change.
    #[test]
    fn paths_may_change() {
        let mut running = Config::new();
        running.security.password_file = Some("a".into());
        running.security.tls =
            Some(Tls { certificate: "c".into(), key: "k".into(), ..Tls::default() });
        let mut new = running.clone();
        new.security.password_file = Some("b".into());
        new.security.tls = Some(Tls {
            certificate: "d".into(),
            key: "l".into(),
            client_authorities: Some("x".into()),
            ..Tls::default()
        });
        let merged = new.over_running(&running);
        assert_eq!(merged.security.password_file, new.security.password_file);
        let tls = merged.security.tls.as_ref().unwrap();
        assert_eq!((tls.certificate.to_str(), &tls.client_authorities), (Some("d"), &None));
        assert_eq!(differences(&new, &merged), ["tls.client-ca"]);
        new.security.password_file = None;
        assert_eq!(
            new.over_running(&running).security.password_file,
            running.security.password_file
        );
    }
}
