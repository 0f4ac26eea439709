//! The name and password of a request (RFC 7617).

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

/// Accepts Base64 with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Longest accepted credentials in their encoded form, in bytes.
const MAX_FIELD_BYTES: usize = 1024;

/// A claimed name with its password. Neither contains control characters.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    text: Vec<u8>,
    /// Length of the name, which is the index of the colon.
    name: usize,
}

impl Credentials {
    /// Parses the value of an `Authorization` field. Returns `None` unless it contains valid Basic
    /// credentials.
    pub(crate) fn parse(field: &[u8]) -> Option<Self> {
        let space = field.iter().position(|byte| *byte == b' ')?;
        let (scheme, rest) = field.split_at(space);
        let encoded = rest.trim_ascii();
        if !scheme.eq_ignore_ascii_case(b"Basic") || encoded.len() > MAX_FIELD_BYTES {
            return None;
        }
        let text = BASE64.decode(encoded).ok()?;
        let name = text.iter().position(|byte| *byte == b':')?;
        let plain = !text.iter().any(u8::is_ascii_control);
        plain.then_some(Self { text, name })
    }

    /// The name; it contains no colon.
    pub(crate) fn name(&self) -> &[u8] {
        &self.text[..self.name]
    }

    /// The password.
    pub(crate) fn password(&self) -> &[u8] {
        &self.text[self.name + 1..]
    }

    /// Name and password joined by the colon, which is unambiguous.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorization_fields() {
        // (field, name and password)
        let table: [(&str, Option<(&str, &str)>); 12] = [
            // The example of RFC 7617 §2.
            ("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", Some(("Aladdin", "open sesame"))),
            ("basic  QWxhZGRpbjpvcGVuIHNlc2FtZQ", Some(("Aladdin", "open sesame"))),
            // The example of §2.1: a pound sign in UTF-8.
            ("Basic dGVzdDoxMjPCow==", Some(("test", "123£"))),
            ("BASIC YTpiOmM=", Some(("a", "b:c"))),
            ("Basic Og==", Some(("", ""))),
            ("Basic YTo=", Some(("a", ""))),
            ("Basic YWI=", None),
            ("Basic YTpiCg==", None),
            ("Basic !!", None),
            ("Basic", None),
            ("Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ==", None),
            ("", None),
        ];
        for (field, wanted) in table {
            let found = Credentials::parse(field.as_bytes());
            let found = found.as_ref().map(|found| (found.name(), found.password()));
            let wanted = wanted.map(|(name, password)| (name.as_bytes(), password.as_bytes()));
            assert_eq!(found, wanted, "{field}");
        }
        let long = format!("Basic {}", "YTpi".repeat(300));
        assert!(Credentials::parse(long.as_bytes()).is_none());
    }
}
