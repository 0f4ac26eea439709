//! Keys that can change while the server runs.

use crate::config::Config;

impl Config {
    /// This configuration, with the values of `running` for keys that require a restart.
    pub(crate) fn over_running(&self, running: &Self) -> Self {
        let mut new = Self {
            listen: self.listen.clone(),
            h2c: self.h2c,
            send: self.send,
            https_port: self.https_port,
            ticket_key: self.ticket_key.clone(),
            unknown_host: self.unknown_host,
            max_connections: self.max_connections,
            health: self.health.clone(),
            limits: self.limits,
            timeouts: self.timeouts,
            per_address: self.per_address,
            allow: self.allow.clone(),
            deny: self.deny.clone(),
            real_ip_from: self.real_ip_from.clone(),
            real_ip_field: self.real_ip_field,
            real_ip_host: self.real_ip_host,
            acme: self.acme.clone(),
            hosts: self.hosts.clone(),
            access_log: self.access_log.clone(),
            ..running.clone()
        };
        // A server that was started without a log has no log stages.
        if !running.has_logs() {
            new.access_log = None;
            new.hosts.iter_mut().for_each(|host| host.access_log = None);
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use phalanx_config::differences;

    use super::*;
    use crate::config::ForwardedField;

    #[test]
    fn unchangeable_keys_are_reported() {
        let running = Config::new();
        let mut new = Config::with_root("elsewhere");
        new.timeouts.idle *= 2;
        new.https_port = Some(8443);
        new.ticket_key = Some("key".into());
        new.per_address.burst = 3;
        new.allow = vec!["10.0.0.0/8".parse().unwrap()];
        new.deny = vec!["10.0.0.1".parse().unwrap()];
        new.real_ip_from = new.deny.clone();
        new.real_ip_field = ForwardedField::Forwarded;
        new.real_ip_host = true;
        assert_eq!(differences(&new, &new.over_running(&running)), [""; 0]);
        (new.cache_bytes, new.runtime.workers) = (7, 3);
        new.access_log = Some(Default::default());
        new.hosts[0].access_log = Some(Default::default());
        let over = new.over_running(&running);
        let mut keys = differences(&new, &over);
        keys.sort();
        assert_eq!(keys, ["access-log", "cache", "host", "runtime.workers"]);
        assert_eq!((over.cache_bytes, &over.runtime), (running.cache_bytes, &running.runtime));
        assert_eq!(over.timeouts, new.timeouts);
        let running = Config { access_log: Some(Default::default()), ..running };
        let over = new.over_running(&running);
        assert_eq!((&over.access_log, &over.hosts), (&new.access_log, &new.hosts));
    }
}
