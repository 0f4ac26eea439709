//! Multipart range responses (RFC 9110, 14.6; RFC 2046, 5.1).

use crate::negotiate::range::Parts;
use crate::response::entity::Entity;
use crate::response::head::Head;

/// The body of a 206 response with several ranges, except the ranges themselves: the text before, between and
/// after them.
///
/// ```
/// use phalanx_http::{Entity, Limits, Multipart, Parse, Ranged, Validators, content_type, parse, range};
///
/// let bytes = b"GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1,-2\r\n\r\n";
/// let Ok(Parse::Complete(request, _)) = parse(bytes, &Limits::default()) else { panic!() };
/// let validators = Validators { etag: "\"v1\"", modified: 0 };
/// let Ranged::Parts(parts) = range::resolve(&request, &validators, 9) else { panic!() };
/// let entity = Entity::new(content_type(b"a.txt"), &validators, 9, &[]);
/// let multipart = Multipart::new(&parts, &entity, 9, 0x123);
///
/// let mut body = Vec::new();
/// for (n, (start, end)) in parts.iter().enumerate() {
///     multipart.before(n, &mut body);
///     body.extend_from_slice(&b"some text"[start as usize..end as usize]);
/// }
/// multipart.end(&mut body);
/// assert_eq!(body.len() as u64, multipart.length());
/// assert!(body.ends_with(b"xt\r\n--00000000000000000000000000000123--\r\n"));
/// ```
#[derive(Debug)]
pub struct Multipart<'a> {
    parts: &'a Parts,
    entity: &'a Entity,
    /// Length of the representation.
    whole: u64,
    boundary: [u8; 32],
}

impl<'a> Multipart<'a> {
    /// For a representation of `whole` bytes. The boundary must not occur in the representation, so `boundary` should
    /// be a number that the author of the file cannot know, such as a hash with a secret key. It is always written with
    /// all digits.
    pub fn new(parts: &'a Parts, entity: &'a Entity, whole: u64, boundary: u128) -> Multipart<'a> {
        let digit = |n: usize| b"0123456789abcdef"[(boundary >> (124 - 4 * n)) as usize & 0xf];
        Multipart { parts, entity, whole, boundary: std::array::from_fn(digit) }
    }

    /// Adds `Content-Type` and `Content-Length` of the whole response.
    pub fn head<'h>(&self, head: Head<'h>) -> Head<'h> {
        let mut value = *b"multipart/byteranges; boundary=................................";
        let at = value.len() - self.boundary.len();
        value[at..].copy_from_slice(&self.boundary);
        head.field("Content-Type", &value).length(self.length())
    }

    /// Length of the body, including the ranges.
    pub fn length(&self) -> u64 {
        let mut frames = Vec::with_capacity(128);
        let mut length = 0;
        for (n, (start, end)) in self.parts.iter().enumerate() {
            frames.clear();
            self.before(n, &mut frames);
            length += frames.len() as u64 + (end - start);
        }
        frames.clear();
        self.end(&mut frames);
        length + frames.len() as u64
    }

    /// Appends the text before part `n`: the delimiter and the part's fields.
    ///
    /// # Panics
    /// If there is no such part.
    pub fn before(&self, n: usize, out: &mut Vec<u8>) {
        let (start, end) = self.parts.iter().nth(n).expect("one of the parts");
        if n > 0 {
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"--");
        out.extend_from_slice(&self.boundary);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(self.entity.content_type().http1);
        out.extend_from_slice(b"Content-Range: bytes ");
        let mut digits = itoa::Buffer::new();
        for (number, after) in [(start, "-"), (end - 1, "/"), (self.whole, "\r\n\r\n")] {
            out.extend_from_slice(digits.format(number).as_bytes());
            out.extend_from_slice(after.as_bytes());
        }
    }

    /// Appends the text after the last part.
    pub fn end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n--");
        out.extend_from_slice(&self.boundary);
        out.extend_from_slice(b"--\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::mime::ContentType;
    use crate::negotiate::conditional::Validators;
    use crate::negotiate::range;
    use crate::negotiate::range::Ranged;
    use crate::request::scan::{Parse, parse};
    use crate::response::buffer::ResponseBuffer;
    use crate::response::date_line::DateLine;
    use crate::response::reply::Reply;
    use crate::status::Status;
    use proptest::prelude::*;

    /// Parses a body as a client does: the parts by their `Content-Range`, delimited by the boundary of the
    /// head.
    fn read(head: &str, body: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let boundary = head.split("boundary=").nth(1).unwrap().split("\r\n").next().unwrap();
        let delimiter = format!("\r\n--{boundary}");
        let body = [b"\r\n", body].concat();
        let find =
            |bytes: &[u8], needle: &[u8]| bytes.windows(needle.len()).position(|w| w == needle);
        let mut rest = &body[find(&body, delimiter.as_bytes()).unwrap() + delimiter.len()..];
        let mut parts = Vec::new();
        while !rest.starts_with(b"--") {
            let end = find(rest, delimiter.as_bytes()).expect("a delimiter behind each part");
            let fields = find(rest, b"\r\n\r\n").unwrap();
            let lines = str::from_utf8(&rest[..fields]).unwrap();
            assert!(lines.contains("\r\nContent-Type: text/html; charset=utf-8\r\n"), "{lines}");
            let range = lines.split("Content-Range: bytes ").nth(1).unwrap();
            parts.push((
                range.split('-').next().unwrap().parse().unwrap(),
                rest[fields + 4..end].into(),
            ));
            rest = &rest[end + delimiter.len()..];
        }
        assert_eq!(rest, b"--\r\n");
        parts
    }

    proptest! {
        #[test]
        fn written_parts_read_back(
            content in prop::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'-'), any::<u8>()], 40..200),
            ranges in prop::collection::vec((0..100u64, 0..9u64), 2..range::MAX_RANGES),
            boundary: u128,
        ) {
            let list: Vec<_> = ranges.iter().map(|(a, n)| format!("{a}-{}", a + n)).collect();
            let request = format!("GET / HTTP/1.1\r\nHost: a\r\nRange: bytes={}\r\n\r\n", list.join(","));
            let Ok(Parse::Complete(request, _)) = parse(request.as_bytes(), &Limits::default()) else {
                panic!()
            };
            let validators = Validators { etag: "\"v\"", modified: 0 };
            let whole = content.len() as u64;
            let Ranged::Parts(parts) = range::resolve(&request, &validators, whole) else {
                return Ok(());
            };
            let entity = Entity::new(ContentType::HTML, &validators, whole, &[]);
            let multipart = Multipart::new(&parts, &entity, whole, boundary);
            let mut head = ResponseBuffer::lines(Vec::new());
            let head_start = head.head(Status::PartialContent, &DateLine::new(0), Reply::CLOSE);
            multipart.head(head_start.fields(entity.multipart())).finish();
            let head = String::from_utf8(head.take()).unwrap();
            let mut body = Vec::new();
            for (n, (start, end)) in parts.iter().enumerate() {
                multipart.before(n, &mut body);
                body.extend_from_slice(&content[start as usize..end as usize]);
            }
            multipart.end(&mut body);
            let length = format!("\r\nContent-Length: {}\r\n", body.len());
            prop_assert!(head.contains(&length) && !head.contains("Content-Range"), "{}", head);
            prop_assert_eq!(head.matches("Content-Type").count(), 1);
            let expected: Vec<_> = parts
                .iter()
                .map(|(start, end)| (start, content[start as usize..end as usize].to_vec()))
                .collect();
            prop_assert_eq!(read(&head, &body), expected);
        }
    }
}
