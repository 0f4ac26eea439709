//! Settings (RFC 9114 §7.2.4).

use crate::error::{Code, Error};
use crate::varint;

/// The largest field list that the sender accepts, in bytes (RFC 9114 §7.2.4.1).
const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
/// A reserved identifier without meaning, also used as a frame type.
pub(crate) const GREASE: u64 = 0x1f * 7 + 0x21;
/// Maximum number of settings, which are compared to find repeated ones. Implementations send about five.
const MAX_SETTINGS: usize = 64;

/// The settings of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) max_field_section_size: Option<u64>,
}

impl Settings {
    /// Appends the payload of a SETTINGS frame. Without the settings of QPACK, the dynamic table has no capacity, and no
    /// stream waits for it.
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        if let Some(size) = self.max_field_section_size {
            varint::encode(out, MAX_FIELD_SECTION_SIZE);
            varint::encode(out, size);
        }
        varint::encode(out, GREASE);
        varint::encode(out, 0);
    }

    /// The settings in the payload of a SETTINGS frame.
    ///
    /// # Errors
    /// If a setting is incomplete, repeated, or an HTTP/2 setting.
    pub(crate) fn decode(mut payload: &[u8]) -> Result<Self, Error> {
        let mut settings = Self::default();
        let mut ids = Vec::new();
        while !payload.is_empty() {
            let (Some(id), Some(value)) =
                (varint::decode(&mut payload), varint::decode(&mut payload))
            else {
                return Err(Error::Connection(Code::FRAME_ERROR));
            };
            // RFC 9114 §7.2.4.1.
            if matches!(id, 0x2..=0x5) || ids.contains(&id) {
                return Err(Error::Connection(Code::SETTINGS_ERROR));
            }
            if ids.len() == MAX_SETTINGS {
                return Err(Error::Connection(Code::EXCESSIVE_LOAD));
            }
            ids.push(id);
            if id == MAX_FIELD_SECTION_SIZE {
                settings.max_field_section_size = Some(value);
            }
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_round_trip() {
        let settings = Settings { max_field_section_size: Some(16_384) };
        let mut payload = Vec::new();
        settings.encode(&mut payload);
        assert_eq!(Settings::decode(&payload), Ok(settings));
        assert_eq!(Settings::decode(b""), Ok(Settings::default()));
    }

    #[test]
    fn invalid_settings_are_rejected() {
        let many: Vec<u8> = (100..100 + MAX_SETTINGS as u16 + 1)
            .flat_map(|id| [(id | 0x4000).to_be_bytes(), [0, 0]].concat()[..3].to_vec())
            .collect();
        let table: [(&[u8], Code); 5] = [
            (b"\x06", Code::FRAME_ERROR),
            (b"\x06\x40", Code::FRAME_ERROR),
            (b"\x03\x01", Code::SETTINGS_ERROR),
            (b"\x06\x01\x06\x01", Code::SETTINGS_ERROR),
            (&many, Code::EXCESSIVE_LOAD),
        ];
        for (payload, code) in table {
            assert_eq!(Settings::decode(payload), Err(Error::Connection(code)), "{payload:?}");
        }
    }
}
