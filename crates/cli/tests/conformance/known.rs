//! Differences in framing between Phalanx and other servers that are as they should be: `known.txt`.

use crate::differential::Difference;

/// Lines of `peer | kind | our status | their status | what is in the stream | why`; `*` for any, and more
/// than one with `,` between them. A status is that of the last answer to the stream, 0 if there is none.
const KNOWN: &str = include_str!("known.txt");

/// Why a difference is as it should be, if it is known to be.
pub(crate) fn why(found: &Difference<'_>) -> Option<&'static str> {
    KNOWN.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).find_map(|line| {
        let mut parts = line.splitn(6, '|').map(str::trim);
        let mut next = || parts.next().unwrap_or_else(|| panic!("known.txt: {line:?} is cut off"));
        let [peer, kind, ours, theirs, shows, why] = std::array::from_fn(|_| next());
        let named =
            |list: &str, one: &str| list == "*" || list.split(',').any(|item| item.trim() == one);
        let fits = named(peer, found.peer)
            && named(kind, found.kind)
            && named(ours, &found.ours.status.to_string())
            && named(theirs, &found.theirs.status.to_string())
            && (shows == "*" || shows.split(',').any(|what| holds(what.trim(), found.stream)));
        fits.then_some(why)
    })
}

/// Whether a stream has this in it.
fn holds(what: &str, stream: &[u8]) -> bool {
    let text = stream.to_ascii_lowercase();
    let count = |part: &[u8]| text.windows(part.len()).filter(|found| *found == part).count();
    let has = |part: &[u8]| count(part) > 0;
    match what {
        "bare LF" => {
            (0..text.len()).any(|at| text[at] == b'\n' && (at == 0 || text[at - 1] != b'\r'))
        }
        "bare CR" => {
            text.iter().enumerate().any(|(at, b)| *b == b'\r' && text.get(at + 1) != Some(&b'\n'))
        }
        "control" => text.iter().any(|b| (*b < b' ' && !b"\r\n\t".contains(b)) || *b == 0x7f),
        "beyond ASCII" => !text.is_ascii(),
        "fold" => has(b"\n ") || has(b"\n\t"),
        "coding" => has(b"transfer-encoding"),
        "length" => has(b"content-length"),
        "lengths" => count(b"content-length") > 1,
        "expectation" => has(b"expect:"),
        "1.0" => has(b"http/1.0"),
        "dots" => has(b"..") || has(b"%2e"),
        "escape" => has(b"%"),
        "empty line" => has(b"\r\n\r\n\r\n") || text.starts_with(b"\r\n"),
        other => panic!("known.txt: `{other}` is nothing that is looked for"),
    }
}
