//! Media types by file extension.

use std::fmt;

/// A value of `Content-Type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentType {
    /// Type and subtype, as in `text/html`.
    pub essence: &'static str,
    /// Whether to add `charset=utf-8`.
    pub utf8: bool,
}

impl ContentType {
    /// Type of unknown files (RFC 9110, 8.3).
    pub const UNKNOWN: ContentType =
        ContentType { essence: "application/octet-stream", utf8: false };

    /// Type of generated pages.
    pub const HTML: ContentType = ContentType { essence: "text/html", utf8: true };

    /// Appends the value to a buffer.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.essence.as_bytes());
        out.extend_from_slice(self.parameter().as_bytes());
    }

    /// Whether compression pays for this type: text, and formats without compression of their own.
    pub fn is_compressible(self) -> bool {
        is_compressible(self.essence)
    }

    fn parameter(self) -> &'static str {
        if self.utf8 { "; charset=utf-8" } else { "" }
    }
}

impl fmt::Display for ContentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.essence)?;
        f.write_str(self.parameter())
    }
}

/// Types that are missing, outdated or wrong in `mime_guess`. `ts` is an MPEG transport stream according to the
/// registry, players and nginx; browsers do not run TypeScript.
const OVERRIDES: &[(&str, &str)] = &[
    ("mjs", "text/javascript"),
    ("cjs", "text/javascript"),
    ("map", "application/json"),
    ("otf", "font/otf"),
    ("woff", "font/woff"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("ts", "video/mp2t"),
    ("m2ts", "video/mp2t"),
    ("mts", "video/mp2t"),
    ("m4s", "video/iso.segment"),
    ("m4a", "audio/mp4"),
    ("m4b", "audio/mp4"),
    ("mid", "audio/midi"),
    ("midi", "audio/midi"),
    ("ttml", "application/ttml+xml"),
    ("vcf", "text/vcard"),
    ("psd", "image/vnd.adobe.photoshop"),
    ("tgz", "application/gzip"),
    ("zst", "application/zstd"),
    ("rpm", "application/x-redhat-package-manager"),
    ("obj", "model/obj"),
    ("stl", "model/stl"),
    ("usdz", "model/vnd.usdz+zip"),
];

/// The content type for a file of this name. Text is declared as UTF-8, because it nearly always is, and browsers that
/// have to guess often guess wrong.
///
/// ```
/// use phalanx_http::content_type;
///
/// assert_eq!(content_type(b"a/b.html").to_string(), "text/html; charset=utf-8");
/// assert_eq!(content_type(b"a/b.PNG").to_string(), "image/png");
/// assert_eq!(content_type(b"a.b/c").to_string(), "application/octet-stream");
/// ```
pub fn content_type(path: &[u8]) -> ContentType {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let extension = memchr::memrchr(b'.', name).map(|at| &name[at + 1..]);
    let Some(extension) = extension.and_then(|extension| str::from_utf8(extension).ok()) else {
        return ContentType::UNKNOWN;
    };
    let entry = OVERRIDES.iter().find(|(known, _)| extension.eq_ignore_ascii_case(known));
    let essence = match entry {
        Some((_, essence)) => essence,
        None => match mime_guess::from_ext(extension).first_raw() {
            Some(essence) => essence,
            None => return ContentType::UNKNOWN,
        },
    };
    ContentType { essence, utf8: is_text(essence) }
}

/// Whether compression pays for a type and subtype, in lower case: text, and formats without compression of their own.
pub fn is_compressible(essence: &str) -> bool {
    is_text(essence)
        || matches!(
            essence,
            "application/wasm"
                | "application/x-javascript"
                | "application/rtf"
                | "application/vnd.ms-fontobject"
                | "font/ttf"
                | "font/otf"
                | "application/x-font-ttf"
                | "application/font-sfnt"
                | "image/bmp"
                | "image/x-icon"
                | "image/vnd.microsoft.icon"
        )
}

/// Whether a type and subtype, in lower case, are those of text.
pub fn is_text(essence: &str) -> bool {
    essence.starts_with("text/")
        || essence.ends_with("+xml")
        || essence.ends_with("+json")
        || matches!(essence, "application/json" | "application/xml" | "application/javascript")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types() {
        let table = [
            ("index.html", "text/html; charset=utf-8"),
            ("a.css", "text/css; charset=utf-8"),
            ("a.js", "text/javascript; charset=utf-8"),
            ("a.mjs", "text/javascript; charset=utf-8"),
            ("a.json", "application/json; charset=utf-8"),
            ("a.js.map", "application/json; charset=utf-8"),
            ("a.svg", "image/svg+xml; charset=utf-8"),
            ("a.xml", "text/xml; charset=utf-8"),
            ("a.atom", "application/atom+xml; charset=utf-8"),
            ("a.webmanifest", "application/manifest+json; charset=utf-8"),
            ("robots.txt", "text/plain; charset=utf-8"),
            ("a.md", "text/markdown; charset=utf-8"),
            ("a.JPG", "image/jpeg"),
            ("a.webp", "image/webp"),
            ("a.avif", "image/avif"),
            ("a.ico", "image/x-icon"),
            ("a.woff2", "font/woff2"),
            ("a.woff", "font/woff"),
            ("a.otf", "font/otf"),
            ("a.ttf", "font/ttf"),
            ("a.wasm", "application/wasm"),
            ("a.m3u8", "application/vnd.apple.mpegurl"),
            ("a.mpd", "application/dash+xml; charset=utf-8"),
            ("a.ts", "video/mp2t"),
            ("a.TS", "video/mp2t"),
            ("a.m4s", "video/iso.segment"),
            ("a.m4a", "audio/mp4"),
            ("a.MJS", "text/javascript; charset=utf-8"),
            ("a.rpm", "application/x-redhat-package-manager"),
            ("a.xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
            ("a.pdf", "application/pdf"),
            ("a.mp4", "video/mp4"),
            ("a.tar.gz", "application/gzip"),
            ("LICENSE", "application/octet-stream"),
            ("a.unheardof", "application/octet-stream"),
            ("a.", "application/octet-stream"),
            ("d.html/file", "application/octet-stream"),
            ("", "application/octet-stream"),
        ];
        for (path, expected) in table {
            assert_eq!(content_type(path.as_bytes()).to_string(), expected, "{path}");
        }
        assert_eq!(content_type(b"a.\xff"), ContentType::UNKNOWN);
        for (name, expected) in
            [("a.js", true), ("a.svg", true), ("a.wasm", true), ("a.ttf", true), ("a.otf", true)]
                .into_iter()
                .chain(["a.png", "a.woff2", "a.zip", "a.mp4", "a"].map(|name| (name, false)))
        {
            assert_eq!(content_type(name.as_bytes()).is_compressible(), expected, "{name}");
        }
    }
}
