//! Names, sizes and times as text.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// All but the unreserved characters of RFC 3986 §2.3, so that any name stays one segment.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes a name as a path segment of a link.
pub(super) fn segment(name: &[u8]) -> String {
    percent_encode(name, SEGMENT).to_string()
}

/// Appends escaped text to a page. Invalid UTF-8 is replaced by `�`.
pub(super) fn escape(out: &mut String, text: &[u8]) {
    for character in String::from_utf8_lossy(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Characters that change the text direction, with which a name could imitate another.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
}

/// A size with at most three digits, in binary units.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64 / 1024.0, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    let digits = if value < 9.95 { 1 } else { 0 };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// A time as `2026-11-22 04:10` in UTC, and in ISO 8601 with seconds.
pub(super) fn time(modified_ns: i128) -> (String, String) {
    let seconds = i64::try_from(modified_ns.div_euclid(1_000_000_000)).unwrap_or(0);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let date = format!("{year:04}-{month:02}-{day:02}");
    let short = format!("{date} {hour:02}:{minute:02}");
    (short, format!("{date}T{hour:02}:{minute:02}:{second:02}Z"))
}

/// Converts days since 1970-01-01 to a date. Counts in Gregorian cycles of 400 years that start on the first
/// of March, so that the leap day is the last day of a year.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (cycle, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (cycle * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(segment("a b&c%/ü\"?#.txt".as_bytes()), "a%20b%26c%25%2F%C3%BC%22%3F%23.txt");
        assert_eq!(segment(b"\xff~-_."), "%FF~-_.");
        let mut out = String::new();
        escape(&mut out, b"<script>\"'&\xff\xe2\x80\xae");
        assert_eq!(out, "&lt;script&gt;&quot;&#39;&amp;\u{fffd}\u{fffd}");
    }

    #[test]
    fn sizes() {
        let table = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 KiB"),
            (1024, "1.0 KiB"),
            (10_189, "10 KiB"),
            (1_023_487, "999 KiB"),
            (1_023_488, "1.0 MiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "16 EiB"),
        ];
        for (bytes, wanted) in table {
            assert_eq!(size(bytes), wanted);
        }
    }

    #[test]
    fn times() {
        let table = [
            (0, "1970-01-01 00:00", "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31 23:59", "1969-12-31T23:59:59Z"),
            (784_111_777, "1994-11-06 08:49", "1994-11-06T08:49:37Z"),
            (951_782_399, "2000-02-28 23:59", "2000-02-28T23:59:59Z"),
            (951_868_799, "2000-02-29 23:59", "2000-02-29T23:59:59Z"),
            (4_107_542_400, "2100-03-01 00:00", "2100-03-01T00:00:00Z"),
        ];
        for (second, short, long) in table {
            let found = time(second * 1_000_000_000 + 1);
            assert_eq!(found, (short.to_owned(), long.to_owned()), "{second}");
        }
    }
}
