//! One pass over the field lines that extracts the fields the server uses.

use crate::reject::Reject;
use crate::request::framing::Framing;
use crate::request::head::Request;
use crate::request::host::is_authority;
use crate::status::Status;
use crate::syntax::bytes::elements;

/// Results of the pass that are not stored in the request.
#[derive(Default)]
pub(crate) struct ParsedFields {
    pub(crate) framing: Framing,
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    pub(crate) expects: bool,
}

impl ParsedFields {
    /// Processes one field line. Names are first distinguished by length, so that most lines of a browser's
    /// request are skipped without a comparison.
    #[inline]
    pub(crate) fn take<'a>(
        &mut self,
        request: &mut Request<'a>,
        name: &[u8],
        value: &'a [u8],
    ) -> Result<(), Reject> {
        match name.len() {
            4 if same(name, b"host") => self.host(request, value)?,
            5 if same(name, b"range") => once(&mut request.range, value),
            6 if same(name, b"expect") => self.expect(value)?,
            7 if same(name, b"referer") => request.referer = Some(value),
            8 if same(name, b"if-match") => {
                first(&mut request.if_match, value, &mut request.repeated)
            }
            8 if same(name, b"if-range") => once(&mut request.if_range, value),
            10 if same(name, b"user-agent") => request.user_agent = Some(value),
            10 if same(name, b"connection") => self.connection(value),
            13 if same(name, b"if-none-match") => {
                first(&mut request.if_none_match, value, &mut request.repeated);
            }
            14 if same(name, b"content-length") => self.framing.content_length(value)?,
            15 if same(name, b"accept-encoding") => {
                first(&mut request.accept_encoding, value, &mut request.repeated);
            }
            17 if same(name, b"transfer-encoding") => self.framing.transfer_encoding(value)?,
            17 if same(name, b"if-modified-since") => once(&mut request.if_modified_since, value),
            19 if same(name, b"if-unmodified-since") => {
                once(&mut request.if_unmodified_since, value)
            }
            _ => {}
        }
        Ok(())
    }

    fn host<'a>(&mut self, request: &mut Request<'a>, value: &'a [u8]) -> Result<(), Reject> {
        if request.host.is_some() {
            return Err(Reject::bad("more than one Host"));
        }
        if !is_authority(value) {
            return Err(Reject::bad("invalid Host"));
        }
        request.host = str::from_utf8(value).ok();
        Ok(())
    }

    fn expect(&mut self, value: &[u8]) -> Result<(), Reject> {
        for expectation in elements(value) {
            if !expectation.eq_ignore_ascii_case(b"100-continue") {
                return Err(Reject::new(Status::ExpectationFailed, "unknown expectation"));
            }
            self.expects = true;
        }
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) {
        // Sent by every browser.
        if value == b"keep-alive" {
            self.keep_alive = true;
            return;
        }
        for option in elements(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }
}

/// Compares a field name, which is a valid token, with a name in lower case. Setting one bit is sufficient to
/// ignore case: it turns no other token byte into a letter or a hyphen. Without an early exit and with a
/// length known at compile time, this compiles to a few vector instructions.
#[inline]
fn same<const N: usize>(name: &[u8], expected: &[u8; N]) -> bool {
    let Ok(name) = <&[u8; N]>::try_from(name) else { return false };
    name.iter()
        .zip(expected)
        .fold(0, |differs, (byte, expected)| differs | ((byte | 0x20) ^ expected))
        == 0
}

/// Stores a field whose lines form one list (RFC 9110, 5.3): the first line, and whether there are more,
/// which [`Request::values`] returns.
fn first<'a>(slot: &mut Option<&'a [u8]>, value: &'a [u8], repeated: &mut bool) {
    *repeated |= slot.is_some();
    slot.get_or_insert(value);
}

/// Stores a field that may occur only once. Two lines joined by a comma are not a valid date, range or tag
/// (RFC 9110, 5.3), so a repeated field is stored as an invalid value.
fn once<'a>(slot: &mut Option<&'a [u8]>, value: &'a [u8]) {
    *slot = Some(if slot.is_some() { b"" } else { value });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::bytes::is_token;

    #[test]
    fn only_case_is_ignored() {
        for byte in (0..=255u8).filter(|byte| is_token(*byte)) {
            for lowercase in (b'a'..=b'z').chain([b'-']) {
                let equal = byte.eq_ignore_ascii_case(&lowercase);
                assert_eq!(same(&[byte], &[lowercase]), equal, "{byte:#x} {lowercase:#x}");
            }
        }
        assert!(!same(b"hos", b"host"));
    }
}
