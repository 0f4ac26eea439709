//! The head of a request, decoded and validated (RFC 9113 §8.3).

use std::ops::Range;

use crate::fields::{self, is_connection_specific, is_path, is_scheme, is_token, length};
use crate::hpack::decoder::Field;

/// Overhead of a field in SETTINGS_MAX_HEADER_LIST_SIZE (RFC 9113 §6.5.2).
const OVERHEAD: usize = 32;
/// Largest field list that is decoded, in bytes, unless the server's limit is larger. A larger one consists mostly of
/// references to the tables.
const MAX_DECODED_BYTES: usize = 512 * 1024;

/// The head of a request. [`Connection::recycle`](crate::Connection::recycle) reuses its memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The pseudo-header fields' values, then the lines of the other fields.
    bytes: Vec<u8>,
    method: Range<usize>,
    path: Range<usize>,
    authority: Option<Range<usize>>,
    has_scheme: bool,
    /// Start of the first line.
    lines: usize,
    /// End of the name and end of the line of each field.
    fields: Vec<(usize, usize)>,
    host: Option<Range<usize>>,
    content_length: Option<u64>,
    /// Size of the field list (RFC 9113 §6.5.2).
    size: usize,
    is_large: bool,
    is_malformed: bool,
}

impl Head {
    /// The method, a token.
    pub fn method(&self) -> &str {
        self.text(&self.method)
    }

    /// Path and query: starts with `/`, or is `*` for OPTIONS. Empty for CONNECT.
    pub fn path(&self) -> &str {
        self.text(&self.path)
    }

    /// Host and port, from `:authority` or else from `Host`, not validated; none if it is not UTF-8.
    pub fn authority(&self) -> Option<&str> {
        let range = self.authority.as_ref().or(self.host.as_ref())?;
        str::from_utf8(&self.bytes[range.clone()]).ok()
    }

    /// The declared length of the content, in bytes.
    pub fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    /// Names and values of the fields, in order. Names are in lower case.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        let mut start = self.lines;
        self.fields.iter().map(move |&(name, end)| {
            let field = (&self.bytes[start..name], &self.bytes[name + 2..end - 2]);
            start = end;
            field
        })
    }

    /// The fields as lines `name: value` with CR LF.
    pub fn lines(&self) -> &[u8] {
        &self.bytes[self.lines..]
    }

    /// Whether the field list is larger than the server's limit, so that fields are missing.
    pub fn is_large(&self) -> bool {
        self.is_large
    }

    /// A head whose field list is larger than the server's limit, and was not decoded.
    pub fn large() -> Self {
        Self { is_large: true, ..Self::default() }
    }

    /// Adds a decoded field of a request over HTTP/3, whose field list has at most `limit` bytes. The rules for fields are
    /// the same as in HTTP/2 (RFC 9114 §4.2 and §4.3).
    pub fn push(&mut self, name: &[u8], value: &[u8], limit: usize) {
        let _ = self.add(Field { name, value, valid: fields::is_valid(name, value) }, limit);
    }

    /// Empties the head, for the next request.
    pub(crate) fn clear(&mut self) {
        let (mut bytes, mut fields) =
            (std::mem::take(&mut self.bytes), std::mem::take(&mut self.fields));
        bytes.clear();
        fields.clear();
        *self = Self { bytes, fields, ..Self::default() };
    }

    /// Memory of the head, in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity() + self.fields.capacity() * size_of::<(usize, usize)>()
    }

    /// Adds a field of a request, within `limit` bytes. Returns `None` if the list [is excessive](Self::is_excessive).
    #[inline]
    pub(crate) fn add(&mut self, field: Field<'_>, limit: usize) -> Option<()> {
        self.size += field.name.len() + field.value.len() + OVERHEAD;
        self.is_malformed |= !field.valid;
        if self.is_malformed || self.size > limit {
            self.is_large |= self.size > limit;
            return (!is_excessive(self.size, limit)).then_some(());
        }
        if field.name.starts_with(b":") {
            self.is_malformed |= self.add_pseudo(field).is_none();
        } else {
            self.is_malformed |= self.add_line(field).is_none();
        }
        Some(())
    }

    /// Whether the field list is too large to be decoded completely by a server with this `limit`.
    pub(crate) fn is_excessive(&self, limit: usize) -> bool {
        is_excessive(self.size, limit)
    }

    /// Returns `None` if the field is unknown, repeated, invalid, or follows a regular field (RFC 9113 §8.3).
    fn add_pseudo(&mut self, Field { name, value, .. }: Field<'_>) -> Option<()> {
        let start = self.bytes.len();
        let range = start..start + value.len();
        let valid = self.fields.is_empty()
            && match name {
                b":method" => self.method.is_empty() && is_token(value),
                b":path" => self.path.is_empty() && (is_path(value) || value == b"*"),
                b":authority" => self.authority.is_none(),
                b":scheme" => !self.has_scheme && is_scheme(value),
                _ => false,
            };
        valid.then_some(())?;
        match name {
            b":method" => self.method = range,
            b":path" => self.path = range,
            b":authority" => self.authority = Some(range),
            _ => {
                self.has_scheme = true;
                return Some(());
            }
        }
        self.bytes.extend_from_slice(value);
        self.lines = self.bytes.len();
        Some(())
    }

    fn add_line(&mut self, Field { name, value, .. }: Field<'_>) -> Option<()> {
        if is_connection_specific(name, value) {
            return None;
        }
        let start = self.bytes.len();
        let (name_end, value_end) = (start + name.len(), start + name.len() + 2 + value.len());
        match name {
            b"host" if self.host.is_some() => return None,
            b"host" => self.host = Some(name_end + 2..value_end),
            b"content-length" => {
                let length = length(value)?;
                if self.content_length.is_some_and(|other| other != length) {
                    return None;
                }
                self.content_length = Some(length);
            }
            _ => (),
        }
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(b": ");
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
        self.fields.push((name_end, value_end + 2));
        Some(())
    }

    /// Whether the complete head is a valid request (RFC 9113 §8.3.1), unless fields are missing.
    pub fn is_valid(&self) -> bool {
        if self.is_malformed || self.is_large {
            return !self.is_malformed;
        }
        let hosts_agree = match (&self.authority, &self.host) {
            (Some(authority), Some(host)) => {
                self.bytes[authority.clone()].eq_ignore_ascii_case(&self.bytes[host.clone()])
            }
            (authority, host) => authority.is_some() || host.is_some(),
        };
        let target = match self.method() {
            // RFC 9113 §8.5.
            "CONNECT" => self.authority.is_some() && !self.has_scheme && self.path.is_empty(),
            "OPTIONS" => self.has_scheme && !self.path.is_empty(),
            "" => false,
            _ => self.has_scheme && !self.path.is_empty() && self.path() != "*",
        };
        hosts_agree && target
    }

    /// Ranges contain text that was validated when it was added.
    fn text(&self, range: &Range<usize>) -> &str {
        str::from_utf8(&self.bytes[range.clone()]).unwrap_or_default()
    }
}

/// Whether a field may be in the trailer section of a request over HTTP/3: valid, and no pseudo-header field (RFC 9114 §4.3).
pub fn is_valid_trailer(name: &[u8], value: &[u8]) -> bool {
    is_trailer(Field { name, value, valid: fields::is_valid(name, value) })
}

/// The trailer section of a request over HTTP/2.
#[derive(Default)]
pub(crate) struct Trailers {
    /// As in a [`Head`].
    size: usize,
    is_malformed: bool,
}

impl Trailers {
    /// Adds a field. Returns `None` if the list [is excessive](Self::is_excessive).
    pub(crate) fn add(&mut self, field: Field<'_>, limit: usize) -> Option<()> {
        self.size += field.name.len() + field.value.len() + OVERHEAD;
        self.is_malformed |= !is_trailer(field);
        (!self.is_excessive(limit)).then_some(())
    }

    /// As for a [`Head`].
    pub(crate) fn is_excessive(&self, limit: usize) -> bool {
        is_excessive(self.size, limit)
    }

    /// Whether the list has more than `limit` bytes.
    pub(crate) fn is_larger_than(&self, limit: usize) -> bool {
        self.size > limit
    }

    /// Whether all fields are permitted.
    pub(crate) fn is_valid(&self) -> bool {
        !self.is_malformed
    }
}

/// Whether a field list of `size` bytes is too large to be decoded completely by a server with this `limit`.
fn is_excessive(size: usize, limit: usize) -> bool {
    size > limit.max(MAX_DECODED_BYTES)
}

/// Whether a field may be in a trailer section: valid, and no pseudo-header field (RFC 9113 §8.1).
pub(crate) fn is_trailer(field: Field<'_>) -> bool {
    let Field { name, value, valid } = field;
    valid && !name.starts_with(b":") && !is_connection_specific(name, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::is_valid;

    const GET: [(&str, &str); 4] =
        [(":method", "GET"), (":scheme", "https"), (":path", "/a?b"), (":authority", "h")];

    fn head(fields: &[(&str, &str)]) -> Head {
        let mut head = Head::default();
        for (name, value) in fields {
            let (name, value) = (name.as_bytes(), value.as_bytes());
            let added = head.add(Field { name, value, valid: is_valid(name, value) }, 1000);
            assert_eq!(added, Some(()));
        }
        head
    }

    #[test]
    fn parts_are_accessible() {
        let mut head =
            head(&[&GET[..], &[("a", "1"), ("content-length", "7"), ("a", "")]].concat());
        for _ in 0..2 {
            assert!(head.is_valid() && !head.is_large());
            assert_eq!((head.method(), head.path(), head.authority()), ("GET", "/a?b", Some("h")));
            let fields: Vec<_> = head.fields().collect();
            assert_eq!(fields, [(&b"a"[..], &b"1"[..]), (b"content-length", b"7"), (b"a", b"")]);
            assert_eq!(head.lines(), b"a: 1\r\ncontent-length: 7\r\na: \r\n");
            assert_eq!(head.content_length, Some(7));
            let repeated =
                self::head(&[&GET[..], &[("a", "1"), ("content-length", "7"), ("a", "")]].concat());
            head.clear();
            assert_eq!(head, Head::default());
            head = repeated;
        }
    }

    /// RFC 9113 §8.2 and §8.3.
    #[test]
    fn malformed_requests_are_detected() {
        let with_fields = |more: &[(&'static str, &'static str)]| [&GET[..], more].concat();
        let without_fields =
            |name: &str| GET.into_iter().filter(|field| field.0 != name).collect::<Vec<_>>();
        let replaced = |name: &'static str, value: &'static str| {
            GET.map(|field| if field.0 == name { (name, value) } else { field }).to_vec()
        };
        // (fields, valid, reason)
        let table = [
            (GET.to_vec(), true, "complete"),
            (with_fields(&[("te", "trailers")]), true, "8.2.2"),
            (with_fields(&[("host", "H")]), true, "equal hosts"),
            (
                [without_fields(":authority"), vec![("host", "h")]].concat(),
                true,
                "8.3.1: host instead",
            ),
            (replaced(":path", "*"), false, "only for OPTIONS"),
            (
                [replaced(":path", "*"), vec![]]
                    .concat()
                    .into_iter()
                    .map(|f| if f.0 == ":method" { (f.0, "OPTIONS") } else { f })
                    .collect(),
                true,
                "OPTIONS",
            ),
            (vec![(":method", "CONNECT"), (":authority", "h:1")], true, "8.5"),
            (vec![(":method", "CONNECT"), (":authority", "h:1"), ("host", "i:1")], false, "8.3.1"),
            (replaced(":method", "CONNECT"), false, "8.5: no path and scheme"),
            (vec![(":method", "CONNECT"), ("host", "h:1")], false, "8.5: authority"),
            (without_fields(":method"), false, "8.3.1"),
            (without_fields(":scheme"), false, "8.3.1"),
            (replaced(":scheme", "coap+tcp"), true, "RFC 3986 3.1"),
            (replaced(":scheme", ""), false, "RFC 3986 3.1"),
            (replaced(":scheme", "ht#tp"), false, "RFC 3986 3.1"),
            (replaced(":scheme", "http:"), false, "RFC 3986 3.1"),
            (replaced(":scheme", "1http"), false, "RFC 3986 3.1"),
            (without_fields(":path"), false, "8.3.1"),
            (without_fields(":authority"), false, "a host is required"),
            (replaced(":path", ""), false, "8.3.1"),
            (replaced(":path", "a"), false, "8.3.1"),
            (replaced(":method", "G T"), false, "RFC 9110 9.1"),
            (with_fields(&[("host", "i")]), false, "8.3.1: different hosts"),
            (with_fields(&[("host", "h"), ("host", "h")]), false, "RFC 9112 3.2"),
            (with_fields(&[(":path", "/")]), false, "8.3: repeated"),
            (with_fields(&[(":status", "200")]), false, "8.3: for responses"),
            (with_fields(&[(":other", "1")]), false, "8.3: unknown"),
            ([&[("a", "b")][..], &GET].concat(), false, "8.3: behind a field"),
            (with_fields(&[("A", "b")]), false, "8.2: upper case"),
            (with_fields(&[("connection", "close")]), false, "8.2.2"),
            (with_fields(&[("keep-alive", "1")]), false, "8.2.2"),
            (with_fields(&[("proxy-connection", "close")]), false, "8.2.2"),
            (with_fields(&[("transfer-encoding", "chunked")]), false, "8.2.2"),
            (with_fields(&[("upgrade", "h2c")]), false, "8.2.2"),
            (with_fields(&[("te", "gzip")]), false, "8.2.2"),
            (with_fields(&[("content-length", "1"), ("content-length", "2")]), false, "8.1.1"),
            (with_fields(&[("content-length", "+1")]), false, "RFC 9110 8.6"),
        ];
        for (fields, valid, reason) in table {
            assert_eq!(head(&fields).is_valid(), valid, "{reason}: {fields:?}");
        }
    }

    #[test]
    fn the_size_is_limited() {
        let long = "x".repeat(900);
        let head = head(&[&GET[..], &[("a", &long), ("b", "c")]].concat());
        assert!(head.is_large() && head.is_valid());
        assert!(head.lines().len() < 900);
    }
}
