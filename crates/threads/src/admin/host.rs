//! The host names under which the admin address answers, because another website could point its own name at this
//! address (DNS rebinding).

use core::net::{Ipv4Addr, Ipv6Addr};

/// Whether a request names the host by an address or as `localhost`, or names no host, as browsers never do.
pub(super) fn is_local(request: &[u8]) -> bool {
    const NAME: &[u8] = b"\r\nhost:";
    let fields = request.windows(NAME.len()).enumerate();
    let mut hosts = fields.filter(|(_, bytes)| bytes.eq_ignore_ascii_case(NAME));
    hosts.all(|(at, _)| {
        let value = request[at + NAME.len()..].split(|byte| *byte == b'\r').next();
        let value = core::str::from_utf8(value.unwrap_or_default());
        value.is_ok_and(|value| is_accepted(value.trim_ascii()))
    })
}

fn is_accepted(authority: &str) -> bool {
    let end = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    let (host, port) = match authority[end..].find(':') {
        Some(colon) => authority.split_at(end + colon),
        None => (authority, ":"),
    };
    let is_address = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(host) => host.parse::<Ipv6Addr>().is_ok(),
        None => host.parse::<Ipv4Addr>().is_ok(),
    };
    let is_local = is_address || host.eq_ignore_ascii_case("localhost");
    is_local && port[1..].bytes().all(|byte| byte.is_ascii_digit())
}
