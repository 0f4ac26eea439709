//! Packet framing: the fixed header (MQTT 5 §2.1).

use crate::error::Error;
use crate::reason::Reason;
use crate::wire::{MAX_VARIABLE, put_variable, variable, variable_length};

/// The kinds of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Connection request.
    Connect = 1,
    /// Response to CONNECT.
    ConnAck = 2,
    /// A message.
    Publish = 3,
    /// Acknowledgement of a QoS 1 message.
    PubAck = 4,
    /// Receipt of a QoS 2 message.
    PubRec = 5,
    /// Release of a QoS 2 message: it will not be retransmitted.
    PubRel = 6,
    /// Completion of a QoS 2 message: its packet identifier is free.
    PubComp = 7,
    /// Subscription request.
    Subscribe = 8,
    /// Response to SUBSCRIBE.
    SubAck = 9,
    /// Unsubscription request.
    Unsubscribe = 10,
    /// Response to UNSUBSCRIBE.
    UnsubAck = 11,
    /// Keep-alive request.
    PingReq = 12,
    /// Keep-alive response.
    PingResp = 13,
    /// End of a connection, with a reason.
    Disconnect = 14,
    /// A step of an extended authentication.
    Auth = 15,
}

impl Kind {
    const ALL: [Self; 15] = [
        Self::Connect,
        Self::ConnAck,
        Self::Publish,
        Self::PubAck,
        Self::PubRec,
        Self::PubRel,
        Self::PubComp,
        Self::Subscribe,
        Self::SubAck,
        Self::Unsubscribe,
        Self::UnsubAck,
        Self::PingReq,
        Self::PingResp,
        Self::Disconnect,
        Self::Auth,
    ];

    /// The required flags in the low four bits of the first byte; `None` if they vary.
    const fn flags(self) -> Option<u8> {
        match self {
            Self::Publish => None,
            Self::PubRel | Self::Subscribe | Self::Unsubscribe => Some(2),
            _ => Some(0),
        }
    }
}

/// The bytes of one packet, not yet decoded.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    pub(crate) body: &'a [u8],
    length: usize,
}

impl<'a> Frame<'a> {
    /// Maximum length of a packet's body in bytes: 256 MiB less one.
    pub const MAX_BODY: usize = MAX_VARIABLE;
    /// Maximum length of a packet in bytes, with a header of five bytes.
    pub const MAX_PACKET: usize = Self::MAX_BODY + 5;

    /// Splits off the packet at the start of `input`. Returns `None` if it is incomplete. A packet of more
    /// than `max_len` bytes, including its header, is rejected as soon as the header is complete.
    ///
    /// # Errors
    /// If `input` does not start with a packet, or the packet is too long ([`Reason::PACKET_TOO_LARGE`]).
    #[inline]
    pub fn split(input: &'a [u8], max_len: usize) -> Result<Option<Self>, Error> {
        let Some((first, rest)) = input.split_first() else { return Ok(None) };
        let Some(&kind) = Kind::ALL.get(usize::from(first >> 4).wrapping_sub(1)) else {
            return Err(Error::malformed("the packet type is 0"));
        };
        let flags = first & 0x0f;
        if kind.flags().is_some_and(|expected| expected != flags) {
            return Err(Error::malformed("reserved flags of a packet are set"));
        }
        let Some((length, size)) = variable(rest)? else { return Ok(None) };
        let total = 1 + size + length;
        if total > max_len {
            let message = "the packet exceeds the maximum packet size";
            return Err(Error::new(Reason::PACKET_TOO_LARGE, message));
        }
        if input.len() < total {
            return Ok(None);
        }
        Ok(Some(Self { kind, flags, body: &input[1 + size..total], length: total }))
    }

    /// The kind of the packet.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The length of the packet in bytes, including its header.
    pub const fn length(&self) -> usize {
        self.length
    }
}

/// Appends a packet whose body is written by `body`; nothing on an error.
pub(crate) fn framed(
    out: &mut Vec<u8>,
    kind: Kind,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
) -> Result<(), Error> {
    let start = out.len();
    out.extend([(kind as u8) << 4 | kind.flags().unwrap_or(0), 0]);
    let length = match body(out) {
        Ok(()) => out.len() - start - 2,
        Err(error) => {
            out.truncate(start);
            return Err(error);
        }
    };
    if let Ok(short @ 0..=0x7f) = u8::try_from(length) {
        out[start + 1] = short;
        return Ok(());
    }
    if length > MAX_VARIABLE {
        out.truncate(start);
        return Err(Error::new(
            Reason::PACKET_TOO_LARGE,
            "the packet exceeds the protocol's maximum size",
        ));
    }
    // Rare: packets encoded this way are usually short.
    let mut header = Vec::with_capacity(variable_length(length));
    put_variable(&mut header, length);
    out.splice(start + 1..start + 2, header);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_packets_wait_and_too_long_ones_fail() {
        let ping = [0xc0, 0];
        assert!(Frame::split(&ping[..1], 10).unwrap().is_none());
        assert_eq!(Frame::split(&ping, 10).unwrap().unwrap().kind(), Kind::PingReq);
        let long = [0x30, 0xff, 0x7f];
        assert_eq!(Frame::split(&long, 100).unwrap_err().reason, Reason::PACKET_TOO_LARGE);
        assert!(Frame::split(&long, Frame::MAX_PACKET).unwrap().is_none());
        let max_length_field = [0x30, 0xff, 0xff, 0xff, 0x7f];
        assert!(Frame::split(&max_length_field, Frame::MAX_PACKET).unwrap().is_none());
        assert!(Frame::split(&max_length_field, Frame::MAX_PACKET - 1).is_err());
    }

    #[test]
    fn reserved_bits_are_refused() {
        for bytes in [[0x00, 0], [0x80, 0], [0xc1, 0], [0x60, 0]] {
            assert!(Frame::split(&bytes, 10).is_err(), "{bytes:x?}");
        }
    }

    #[test]
    fn a_long_body_gets_its_length() {
        let mut out = b"before".to_vec();
        framed(&mut out, Kind::SubAck, |out| {
            out.extend([7; 300]);
            Ok(())
        })
        .unwrap();
        let frame = Frame::split(&out[6..], 1000).unwrap().unwrap();
        assert_eq!((frame.kind(), frame.body), (Kind::SubAck, &[7; 300][..]));
        assert_eq!(frame.length(), 303);
    }
}
