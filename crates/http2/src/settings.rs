//! Settings (RFC 9113 §6.5).

use crate::error::{Code, Error};
use crate::frame::{self, kind};

/// Largest payload that the server receives: the initial value of SETTINGS_MAX_FRAME_SIZE.
pub(crate) const MAX_FRAME_SIZE: usize = 16_384;
/// Initial value of SETTINGS_INITIAL_WINDOW_SIZE, and the window of a new connection.
pub(crate) const INITIAL_WINDOW: i32 = 65_535;

/// Identifiers of settings.
mod id {
    pub(super) const HEADER_TABLE_SIZE: u16 = 1;
    pub(super) const ENABLE_PUSH: u16 = 2;
    pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(super) const MAX_FRAME_SIZE: u16 = 5;
    pub(super) const MAX_HEADER_LIST_SIZE: u16 = 6;
}

/// The server's limits for one connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Concurrent streams; further requests are refused.
    pub streams: u32,
    /// Size of a request's field list (RFC 9113 §6.5.2), in bytes.
    pub head: usize,
    /// Length of a request's content that is received and discarded, in bytes.
    pub body: u64,
}

impl Limits {
    /// Appends the server's SETTINGS frame.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let head = u32::try_from(self.head).unwrap_or(u32::MAX);
        let settings =
            [(id::MAX_CONCURRENT_STREAMS, self.streams), (id::MAX_HEADER_LIST_SIZE, head)];
        let mut payload = [0; 12];
        for (bytes, (id, value)) in payload.chunks_mut(6).zip(settings) {
            bytes[..2].copy_from_slice(&id.to_be_bytes());
            bytes[2..].copy_from_slice(&value.to_be_bytes());
        }
        frame::write(out, kind::SETTINGS, 0, 0, &payload);
    }
}

/// The client's settings that affect the server.
pub(crate) struct PeerSettings {
    /// Window of each new stream.
    pub(crate) initial_window: i32,
    /// Largest payload that the client receives.
    pub(crate) max_frame_size: usize,
    /// Whether the next field block must announce that the encoder's dynamic table is empty (RFC 7541 §4.2):
    /// the client has reduced its size.
    pub(crate) resets_table: bool,
    table_size: u32,
}

impl PeerSettings {
    pub(crate) fn new() -> Self {
        Self {
            initial_window: INITIAL_WINDOW,
            max_frame_size: MAX_FRAME_SIZE,
            resets_table: false,
            table_size: crate::hpack::MAX_TABLE_SIZE as u32,
        }
    }

    /// Applies the payload of a SETTINGS frame. Unknown settings are ignored.
    pub(crate) fn apply(&mut self, payload: &[u8]) -> Result<(), Error> {
        for &[a, b, c, d, e, f] in payload.as_chunks().0 {
            let value = u32::from_be_bytes([c, d, e, f]);
            match u16::from_be_bytes([a, b]) {
                id::ENABLE_PUSH if value > 1 => {
                    return Err(Error::Connection(Code::PROTOCOL_ERROR));
                }
                id::HEADER_TABLE_SIZE => {
                    self.resets_table |= value < self.table_size;
                    self.table_size = value;
                }
                id::INITIAL_WINDOW_SIZE => {
                    self.initial_window = i32::try_from(value)
                        .map_err(|_| Error::Connection(Code::FLOW_CONTROL_ERROR))?;
                }
                id::MAX_FRAME_SIZE => {
                    self.max_frame_size = usize::try_from(value)
                        .ok()
                        .filter(|size| (MAX_FRAME_SIZE..1 << 24).contains(size))
                        .ok_or(Error::Connection(Code::PROTOCOL_ERROR))?;
                }
                _ => (),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(settings: &[(u16, u32)]) -> Result<PeerSettings, Error> {
        let bytes =
            |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
        let mut peer = PeerSettings::new();
        peer.apply(&settings.iter().flat_map(bytes).collect::<Vec<_>>())?;
        Ok(peer)
    }

    /// RFC 9113 §6.5.2.
    #[test]
    fn values_are_validated() {
        let peer = apply(&[(4, 7), (5, 20_000), (99, u32::MAX), (4, 9)]).unwrap();
        assert_eq!(
            (peer.initial_window, peer.max_frame_size, peer.resets_table),
            (9, 20_000, false)
        );
        assert!(apply(&[(1, 100), (1, 4096)]).unwrap().resets_table);
        assert!(!apply(&[(1, 10_000)]).unwrap().resets_table);
        let table = [
            ((2, 2), Code::PROTOCOL_ERROR),
            ((4, 1 << 31), Code::FLOW_CONTROL_ERROR),
            ((5, 16_383), Code::PROTOCOL_ERROR),
            ((5, 1 << 24), Code::PROTOCOL_ERROR),
        ];
        for (setting, code) in table {
            assert_eq!(apply(&[setting]).err(), Some(Error::Connection(code)), "{setting:?}");
        }
    }
}
