//! Legitimate differences in framing between Phalanx and other servers: `known.txt`.

use phalanx_testkit::http::find;

use crate::conformance::differential::Difference;

/// Lines of `peer | kind | our status | their status | content of the stream | reason`; `*` matches any, `,`
/// separates alternatives. A status is that of the last response to the stream, or 0. The content is a quoted
/// text in lower case, or one of the names in [`stream_has`].
const KNOWN: &str = include_str!("known.txt");

/// The reason why a difference is legitimate, if it is listed.
pub(crate) fn reason(found: &Difference<'_>) -> Option<&'static str> {
    let stream = found.stream.to_ascii_lowercase();
    KNOWN.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).find_map(|line| {
        let mut parts = line.splitn(6, '|').map(str::trim);
        let mut next =
            || parts.next().unwrap_or_else(|| panic!("known.txt: {line:?} is incomplete"));
        let [peer, kind, ours, theirs, shows, reason] = std::array::from_fn(|_| next());
        let matches_list =
            |list: &str, one: &str| list == "*" || list.split(',').any(|item| item.trim() == one);
        let matches_all = matches_list(peer, found.peer)
            && matches_list(kind, found.kind)
            && matches_list(ours, &found.ours.status.to_string())
            && matches_list(theirs, &found.theirs.status.to_string())
            && (shows == "*"
                || shows
                    .split(',')
                    .any(|content| stream_has(content.trim(), &stream, found.stream)));
        matches_all.then_some(reason)
    })
}

/// Whether a stream has this content. `small` is the stream in lower case.
fn stream_has(content: &str, lower_case: &[u8], stream: &[u8]) -> bool {
    const METHODS: [&[u8]; 9] =
        [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"PATCH", b"TRACE", b"OPTIONS", b"CONNECT"];
    if let Some(text) = content.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        return find(lower_case, text.as_bytes()).is_some();
    }
    match content {
        "lengths" => {
            let name = b"content-length";
            find(lower_case, name).is_some_and(|at| find(&lower_case[at + 1..], name).is_some())
        }
        // In lines that end like a request line, or nearly so.
        "unknown method" => stream.split(|byte| *byte == b'\n').any(|line| {
            let method = line.split(|byte| *byte == b' ').next().unwrap_or_default();
            find(line, b" HTTP/").is_some() && !METHODS.contains(&method)
        }),
        "later version" => (b'2'..=b'9').any(|minor| {
            let version = [&b"http/1."[..], &[minor]].concat();
            find(lower_case, &version).is_some()
        }),
        "empty line" => stream.starts_with(b"\r\n") || find(stream, b"\r\n\r\n\r\n").is_some(),
        other => panic!("known.txt: unknown content `{other}`"),
    }
}
