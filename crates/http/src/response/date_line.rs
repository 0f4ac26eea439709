//! The fields `Server` and `Date` (RFC 9110, 6.6.1 and 10.2.4). The caller supplies the time.

use crate::response::block::{FieldBlock, Fields};
use crate::syntax::date::{DATE, format_date};

/// The `Server` and `Date` fields of responses, encoded once per second and copied into each.
///
/// ```
/// let mut date = phalanx_http::DateLine::new(0);
/// assert_eq!(date.date(), b"Thu, 01 Jan 1970 00:00:00 GMT");
/// date.update(784_111_777);
/// assert_eq!(date.date(), b"Sun, 06 Nov 1994 08:49:37 GMT");
/// ```
#[derive(Debug, Clone)]
pub struct DateLine {
    second: u64,
    date: [u8; DATE],
    fields: FieldBlock,
}

impl DateLine {
    /// The fields for a time in seconds since 1970. Later times than the year 9999 are clamped.
    pub fn new(second: u64) -> DateLine {
        let (date, mut fields) = (format_date(second), FieldBlock::default());
        fields.push("Server", b"phalanx");
        fields.push("Date", &date);
        DateLine { second, date, fields }
    }

    /// Sets the time; cheap if the second is unchanged.
    pub fn update(&mut self, second: u64) {
        if second != self.second {
            *self = DateLine::new(second);
        }
    }

    /// The current second.
    pub fn second(&self) -> u64 {
        self.second
    }

    /// The date alone: 29 bytes of `IMF-fixdate`.
    pub fn date(&self) -> &[u8] {
        &self.date
    }

    /// Both fields.
    pub(crate) fn fields(&self) -> Fields<'_> {
        self.fields.all()
    }
}
