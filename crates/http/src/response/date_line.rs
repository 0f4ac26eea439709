//! The fields `Server` and `Date` (RFC 9110, 6.6.1 and 10.2.4). The caller supplies the time.

use crate::response::block::{FieldBlock, Fields};
use crate::syntax::date::format_date;

/// The `Server` and `Date` fields of responses, encoded once per second and copied into each.
///
/// ```
/// let mut date = phalanx_http::DateLine::new(0);
/// date.update(784_111_777);
/// assert_eq!(date.second(), 784_111_777);
/// ```
#[derive(Debug, Clone)]
pub struct DateLine {
    second: u64,
    fields: FieldBlock,
}

impl DateLine {
    /// The fields for a time in seconds since 1970. Later times than the year 9999 are clamped.
    pub fn new(second: u64) -> DateLine {
        let mut fields = FieldBlock::default();
        fields.push("Server", b"phalanx");
        fields.push("Date", &format_date(second));
        DateLine { second, fields }
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

    /// Both fields.
    pub(crate) fn fields(&self) -> Fields<'_> {
        self.fields.all()
    }
}
