//! Dates (RFC 9110, 5.6.7). The caller supplies the time.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Last second of the year 9999, the end of what the format can express.
const MAX_SECOND: u64 = 253_402_300_799;

/// Length of an `IMF-fixdate`.
pub(crate) const DATE: usize = 29;

/// Formats a second since 1970 as an HTTP date (`IMF-fixdate`). Later times than the year 9999 are clamped.
pub fn format_date(second: u64) -> [u8; DATE] {
    struct Fixed([u8; DATE], usize);
    impl std::fmt::Write for Fixed {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            let slot = self.0.get_mut(self.1..self.1 + text.len()).ok_or(std::fmt::Error)?;
            slot.copy_from_slice(text.as_bytes());
            self.1 += text.len();
            Ok(())
        }
    }
    let time = UNIX_EPOCH + Duration::from_secs(second.min(MAX_SECOND));
    let mut fixed = Fixed([b' '; DATE], 0);
    // Cannot fail: every date up to MAX_SECOND has 29 bytes.
    let _ = write!(fixed, "{}", httpdate::HttpDate::from(time));
    fixed.0
}

/// Parses an HTTP date in any of its three forms into seconds since 1970; `None` for anything else, including
/// dates before 1970. Invalid dates in conditions are ignored (RFC 9110, 13.1.3).
pub fn parse_date(value: &[u8]) -> Option<u64> {
    let time: SystemTime = httpdate::parse_http_date(str::from_utf8(value).ok()?).ok()?;
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_read_back() {
        for second in [0, 1, 951_782_400, 1_709_164_800, 4_102_444_800, MAX_SECOND] {
            assert_eq!(parse_date(&format_date(second)), Some(second));
        }
        assert_eq!(format_date(u64::MAX), format_date(MAX_SECOND));
    }

    #[test]
    fn three_forms_and_no_fourth() {
        // RFC 9110, 5.6.7
        let moment = Some(784_111_777);
        let table: &[(&str, Option<u64>, &str)] = &[
            ("Sun, 06 Nov 1994 08:49:37 GMT", moment, "IMF-fixdate"),
            ("Sunday, 06-Nov-94 08:49:37 GMT", moment, "RFC 850"),
            ("Sun Nov  6 08:49:37 1994", moment, "asctime"),
            ("Mon, 06 Nov 1994 08:49:37 GMT", None, "not a Monday"),
            ("Sun, 06 Nov 1994 08:49:37 UTC", None, "always GMT"),
            ("Sun, 31 Feb 1994 08:49:37 GMT", None, "no such day"),
            ("Sun, 06 Nov 1994 25:49:37 GMT", None, "no such hour"),
            ("784111777", None, "a number"),
            ("", None, "nothing"),
            ("0", None, "as some clients send"),
            ("Thu, 01 Jan 1969 00:00:00 GMT", None, "before 1970"),
        ];
        for (text, expected, reason) in table {
            assert_eq!(parse_date(text.as_bytes()), *expected, "{text:?}: {reason}");
        }
        assert_eq!(parse_date(b"\xff"), None);
    }
}
