//! The static table (RFC 7541 §A).

/// Number of entries. The first has index 1.
pub(crate) const LENGTH: usize = STATIC.len();

/// Returns the entry with an index from 1 to the length of the table.
pub fn get(index: usize) -> Option<(&'static [u8], &'static [u8])> {
    STATIC.get(index.checked_sub(1)?).map(|(name, value)| (name.as_bytes(), value.as_bytes()))
}

/// Returns the lowest index of an entry with this name in lower case.
pub(crate) fn find_name(name: &[u8]) -> Option<usize> {
    STATIC.iter().position(|(other, _)| other.as_bytes() == name).map(|at| at + 1)
}

/// Returns the index of an entry with this name and value.
pub(crate) fn find(name: &[u8], value: &[u8]) -> Option<usize> {
    let is_match = |entry: &(&str, &str)| entry.0.as_bytes() == name && entry.1.as_bytes() == value;
    STATIC.iter().position(is_match).map(|at| at + 1)
}

#[rustfmt::skip]
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];
