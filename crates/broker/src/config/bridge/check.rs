//! Semantic checks of bridges.

use phalanx_config::ConfigError;
use phalanx_matcher::Filter;
use phalanx_mqtt::topic;

use crate::config::Config;
use crate::config::bridge::{Bridge, BridgeTopic};

impl Config {
    /// Errors of all bridges.
    pub(in crate::config) fn check_bridges(&self) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        for (index, bridge) in self.bridges.iter().enumerate() {
            let mut add_error = |key: &str, message: String| {
                errors.push(ConfigError::for_key(format!("bridge[{index}]{key}"), message));
            };
            bridge.check(&mut add_error);
            if self.bridges[..index].iter().any(|other| other.name == bridge.name) {
                add_error(".name", format!("{:?} is the name of two bridges", bridge.name));
            }
        }
        errors
    }
}

impl Bridge {
    fn check(&self, add_error: &mut impl FnMut(&str, String)) {
        let Self { name, client_id, topics, .. } = self;
        let well = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.len() > 64 || !name.bytes().all(well) {
            let message = "expected at most 64 letters, digits, hyphens, underscores and dots";
            add_error(".name", format!("found {name:?}, {message}"));
        }
        if client_id.len() > usize::from(u16::MAX) || client_id.contains('\0') {
            add_error(".remote-client-id", "not a client identifier of MQTT".into());
        }
        if topics.is_empty() {
            add_error("", "no topic is forwarded; add [[bridge.topic]]".into());
        }
        if self.password_file.is_some() && self.username.is_none() {
            add_error(".remote-password-file", "requires `remote-username`".into());
        }
        if self.max_reconnect_delay < self.reconnect_delay {
            add_error(".max-reconnect-delay", "is less than `reconnect-delay`".into());
        }
        if let Some(own) = &self.notification_topic
            && !topic::is_name(own)
        {
            add_error(".notification-topic", format!("{own:?} is not a topic name"));
        }
        if let Some(tls) = &self.tls {
            if tls.certificate.is_some() != tls.key.is_some() {
                add_error(".tls", "`certificate` and `key` require each other".into());
            }
            if self.address.iter().all(|remote| !remote.is_tls) {
                add_error(".tls", "no address uses TLS; write mqtts://".into());
            }
        }
        for (index, topic) in topics.iter().enumerate() {
            let is_same = |other: &BridgeTopic| {
                other.direction.is_out()
                    && (other.local(), &other.filter, other.json_payload)
                        == (topic.local(), &topic.filter, topic.json_payload)
            };
            if topic.direction.is_out() && topics[..index].iter().any(is_same) {
                let message = format!("{:?} is sent twice with the same filter", topic.local());
                add_error(&format!(".topic[{index}]"), message);
            }
            topic.check(&mut |key, message| add_error(&format!(".topic[{index}]{key}"), message));
        }
    }
}

impl BridgeTopic {
    fn check(&self, add_error: &mut impl FnMut(&str, String)) {
        let Self { pattern, local_prefix, remote_prefix, filter, .. } = self;
        for (key, prefix) in [(".local-prefix", local_prefix), (".remote-prefix", remote_prefix)] {
            if !prefix.is_empty() && !topic::is_name(prefix) {
                add_error(key, format!("found {prefix:?}, expected text without wildcards"));
            }
        }
        for (side, own) in [("local", self.local()), ("remote", self.remote())] {
            // Without `filter`, that of this broker is taken literally.
            let looks_filtered = own.contains('?') && side == "local" || own.starts_with("$where");
            if !topic::is_filter(&own) {
                add_error(".pattern", format!("the {side} topic filter {own:?} is not valid"));
            } else if own.starts_with("$share/")
                || looks_filtered && (filter.is_some() || side == "remote")
            {
                add_error(".pattern", format!("{own:?}: use a plain topic filter, and `filter`"));
            }
        }
        if pattern.is_empty() && (local_prefix.is_empty() || remote_prefix.is_empty()) {
            add_error("", "`pattern` may only be empty with both prefixes".into());
        }
        match filter {
            Some(_) if !self.direction.is_out() => {
                let message = "applies to messages to the remote broker; set direction = \"out\"";
                add_error(".filter", message.into());
            }
            Some(text) => {
                if let Err(error) = Filter::parse(text) {
                    add_error(".filter", format!("invalid filter at {error}"));
                }
            }
            None if self.json_payload => add_error(".json-payload", "requires `filter`".into()),
            None => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        let text =
            format!("[[bridge]]\nname = \"a\"\naddress = \"b\"\nremote-client-id = \"c\"\n{text}");
        let mut config = Config::new();
        let read = phalanx_config::read(
            &mut config,
            &text,
            "test",
            std::path::Path::new(""),
            &mut phalanx_config::Origins::default(),
        );
        assert!(read.is_ok(), "{text}: {read:?}");
        let errors = config.check();
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn bridges_are_checked() {
        let topic = |keys: &str| format!("topic = [{{ {keys} }}]\n");
        assert_eq!(said(&topic("pattern = \"#\", direction = \"both\", qos = 2")), "");
        assert_eq!(said(&topic("local-prefix = \"a/b\", remote-prefix = \"c\"")), "");
        let a = topic("pattern = \"#\"");
        for (text, expected) in [
            ("".to_owned(), "no topic"),
            (
                "topic = [{ pattern = \"a\" }, { pattern = \"a\", remote-prefix = \"b/\" }]\n"
                    .to_owned(),
                "twice",
            ),
            (topic("pattern = \"a#\""), "not valid"),
            (topic("pattern = \"\""), "both prefixes"),
            (topic("pattern = \"a\", local-prefix = \"+/\""), "without wildcards"),
            (topic("pattern = \"a\", qos = 3"), "0 to 2"),
            (topic("pattern = \"$share/a/b\""), "plain topic filter"),
            (topic("pattern = \"a\", filter = \"n >> 5\""), "column"),
            (topic("pattern = \"a\", filter = \"n > 5\", direction = \"in\""), "direction"),
            (topic("pattern = \"a\", json-payload = true"), "requires `filter`"),
            (format!("{a}remote-password-file = \"x\"\n"), "remote-username"),
            (format!("{a}max-reconnect-delay = \"1ms\"\n"), "is less"),
            (format!("{a}notification-topic = \"#\"\n"), "not a topic name"),
            (format!("{a}[bridge.tls]\nkey = \"k\"\n"), "require each other"),
            (format!("{a}[bridge.tls]\nca = \"k\"\n"), "no address uses TLS"),
            (
                format!(
                    "{a}[[bridge]]\nname = \"a\"\naddress = \"b\"\nremote-client-id = \"d\"\n{a}"
                ),
                "two bridges",
            ),
        ] {
            let errors = said(&text);
            assert!(errors.contains(expected), "{text}: {errors:?}");
        }
    }
}
