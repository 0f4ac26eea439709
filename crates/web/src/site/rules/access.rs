//! Addresses that may access some paths.

use std::net::IpAddr;

use phalanx_guard::AddressRules;

use crate::config::HostConfig;
use crate::site::rules::pattern::Pattern;

/// A host's rules about client addresses.
#[derive(Default)]
pub(super) struct AccessRules(Vec<(Pattern, AddressRules)>);

impl AccessRules {
    /// Compiles the rules of a host. Reports errors with `add_error`.
    pub(super) fn new(host: &HostConfig, add_error: &mut impl FnMut(String, String)) -> Self {
        let mut rules = Vec::new();
        for (n, rule) in host.access.iter().enumerate() {
            match (Pattern::new(&rule.path), AddressRules::new(&rule.allow, &rule.deny)) {
                (Ok(pattern), Some(addresses)) => rules.push((pattern, addresses)),
                (Err(message), _) => add_error(format!("access[{n}].path"), message),
                (_, None) => {
                    add_error(
                        format!("access[{n}].allow"),
                        "expected networks in allow or deny".into(),
                    );
                }
            }
        }
        Self(rules)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a rule applies to the path, which begins with a slash.
    pub(super) fn applies_to(&self, path: &[u8]) -> bool {
        self.0.iter().any(|(pattern, _)| pattern.matches(path).is_some())
    }

    /// Like [`applies_to`](Self::applies_to), for a path whose segment boundaries are ambiguous.
    pub(super) fn may_apply_to(&self, path: &[u8]) -> bool {
        self.0.iter().any(|(pattern, _)| pattern.may_match(path))
    }

    /// Whether all rules for the path, which begins with a slash, admit the client. They do not admit an unknown
    /// client.
    pub(super) fn admits(&self, path: &[u8], client: Option<IpAddr>) -> bool {
        let mut rules = self.0.iter().filter(|(pattern, _)| pattern.matches(path).is_some());
        rules.all(|(_, rule)| client.is_some_and(|client| rule.admits(client)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Access;

    #[test]
    fn all_matching_rules_apply() {
        let networks = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let rule = |path: &str, allow: &[&str], deny: &[&str]| Access {
            path: path.into(),
            allow: networks(allow),
            deny: networks(deny),
        };
        let mut host = HostConfig::new(".");
        host.access =
            vec![rule("/admin/**", &["10.0.0.0/8"], &[]), rule("*.txt", &[], &["10.0.0.1"])];
        let rules = AccessRules::new(&host, &mut |key, message| panic!("{key}: {message}"));
        for (path, client, is_admitted) in [
            ("/", [1, 2, 3, 4], true),
            ("/admin", [1, 2, 3, 4], false),
            ("/admin/x", [10, 0, 0, 1], true),
            ("/admin/x.txt", [10, 0, 0, 1], false),
            ("/admin/x.txt", [10, 0, 0, 2], true),
            ("/x.txt", [10, 0, 0, 1], false),
            ("/x.txt", [1, 2, 3, 4], true),
        ] {
            let admitted = rules.admits(path.as_bytes(), Some(client.into()));
            assert_eq!(admitted, is_admitted, "{path} {client:?}");
        }
        assert!(rules.admits(b"/", None) && !rules.admits(b"/x.txt", None), "an unknown client");
        assert!(rules.applies_to(b"/admin/") && !rules.applies_to(b"/x"));
        host.access = vec![rule("/{a", &["10.0.0.0/8"], &[]), rule("/**", &[], &[])];
        let mut keys = Vec::new();
        AccessRules::new(&host, &mut |key, _| keys.push(key));
        assert_eq!(keys, ["access[0].path", "access[1].allow"]);
    }
}
