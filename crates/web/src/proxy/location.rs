//! Targets of redirects sent by upstream servers.

use std::borrow::Cow;

use crate::config::Upstream;
use crate::upstream::Group;

/// The value of `Location` for a client: a URL of a server of the group becomes the path under which the client reaches
/// it. Other URLs, and paths, are unchanged.
pub(super) fn location<'a>(group: &Group, value: &'a [u8]) -> Cow<'a, [u8]> {
    let path = group.members.iter().find_map(|member| without(value, &member.upstream));
    let prefix = match group.rule.strip_prefix && group.rule.prefix != "/" {
        true => group.rule.prefix.as_bytes(),
        false => b"",
    };
    match path {
        // Clients would read the path as a host followed by a path.
        Some([b'/', b'/' | b'\\', ..]) => value.into(),
        Some(path @ [b'/', ..]) => [prefix, path].concat().into(),
        Some(rest) => [prefix, b"/", rest].concat().into(),
        None => value.into(),
    }
}

/// The part of a URL after the server's scheme, host and port; `None` if it is not a URL of this server.
fn without<'a>(value: &'a [u8], server: &Upstream) -> Option<&'a [u8]> {
    let url = server.http_url();
    let (start, path) = value.split_at_checked(url.len())?;
    // Otherwise the URL has another host or port that begins with the server's.
    let is_whole = matches!(path, [] | [b'/' | b'?' | b'#', ..]);
    (is_whole && start.eq_ignore_ascii_case(url.as_bytes())).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Proxy;

    #[test]
    fn urls_of_servers_become_paths() {
        let found = |prefix: &str, strip_prefix, value: &str| {
            let to = ["http://10.0.0.1:3000", "https://b"].map(|url| url.parse().unwrap());
            let mut rule =
                Proxy { prefix: prefix.into(), to: to.to_vec(), strip_prefix, ..Proxy::default() };
            // Without TLS there is no need for a connector.
            rule.to[1].is_tls = false;
            let group = Group::new(&rule, 1, None);
            String::from_utf8(location(&group, value.as_bytes()).into_owned()).unwrap()
        };
        for (value, whole, stripped) in [
            ("http://10.0.0.1:3000/a?b", "/a?b", "/api/a?b"),
            ("HTTP://10.0.0.1:3000/a", "/a", "/api/a"),
            ("http://10.0.0.1:3000", "/", "/api/"),
            ("http://10.0.0.1:3000?b", "/?b", "/api/?b"),
            ("http://b:443/a", "/a", "/api/a"),
        ] {
            assert_eq!(found("/api", false, value), whole, "{value}");
            assert_eq!(found("/api", true, value), stripped, "{value}");
            assert_eq!(found("/", true, value), whole, "{value}");
        }
        for value in [
            "http://10.0.0.1:3000//evil/",
            r"http://10.0.0.1:3000/\evil",
            "http://10.0.0.1:30001/",
            "http://10.0.0.1:3000@evil/",
            "https://c/a",
            "/a",
            "a",
        ] {
            for (prefix, strip_prefix) in [("/api", false), ("/api", true), ("/", true)] {
                assert_eq!(found(prefix, strip_prefix, value), value, "{prefix}");
            }
        }
    }
}
