//! Where a packet begins and ends: its fixed header (MQTT 5 §2.1).

use crate::error::Error;
use crate::reason::Reason;
use crate::wire::{MAX_VARIABLE, put_variable, variable, variable_length};

/// The kinds of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A client asks for a session.
    Connect = 1,
    /// The answer to it.
    ConnAck = 2,
    /// A message.
    Publish = 3,
    /// A message of QoS 1 has come.
    PubAck = 4,
    /// A message of QoS 2 has come.
    PubRec = 5,
    /// It will not be sent again.
    PubRel = 6,
    /// And its number is free.
    PubComp = 7,
    /// A client asks for messages.
    Subscribe = 8,
    /// The answer to it.
    SubAck = 9,
    /// A client wants them no more.
    Unsubscribe = 10,
    /// The answer to it.
    UnsubAck = 11,
    /// A client is still there.
    PingReq = 12,
    /// So is the server.
    PingResp = 13,
    /// One end leaves, and says why.
    Disconnect = 14,
    /// A step of an authentication that takes several.
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

    /// The low four bits of the first byte; none where they say something.
    const fn flags(self) -> Option<u8> {
        match self {
            Self::Publish => None,
            Self::PubRel | Self::Subscribe | Self::Unsubscribe => Some(2),
            _ => Some(0),
        }
    }
}

/// One packet's bytes, not yet read.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    pub(crate) body: &'a [u8],
    length: usize,
}

impl<'a> Frame<'a> {
    /// No packet's body is longer than this, in bytes: 256 MiB less one.
    pub const MAX_BODY: usize = MAX_VARIABLE;

    /// The packet at the front of `input`; none where more bytes are needed. Of a packet that is longer
    /// than `most` bytes, header included, no more than its header need be there to be refused.
    ///
    /// # Errors
    /// When this is the beginning of no packet, or of one that is too long
    /// ([`Reason::PACKET_TOO_LARGE`]).
    #[inline]
    pub fn split(input: &'a [u8], most: usize) -> Result<Option<Self>, Error> {
        let Some((first, rest)) = input.split_first() else { return Ok(None) };
        let Some(&kind) = Kind::ALL.get(usize::from(first >> 4).wrapping_sub(1)) else {
            return Err(Error::malformed("there is no packet of kind 0"));
        };
        let flags = first & 0x0f;
        if kind.flags().is_some_and(|expected| expected != flags) {
            return Err(Error::malformed("reserved flags of a packet are set"));
        }
        let Some((length, size)) = variable(rest)? else { return Ok(None) };
        let whole = 1 + size + length;
        if whole > most {
            let what = "the packet is longer than may be sent here";
            return Err(Error::new(Reason::PACKET_TOO_LARGE, what));
        }
        if input.len() < whole {
            return Ok(None);
        }
        Ok(Some(Self { kind, flags, body: &input[1 + size..whole], length: whole }))
    }

    /// What kind of packet it is.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// How many bytes it has, header included.
    pub const fn length(&self) -> usize {
        self.length
    }
}

/// Appends a packet whose `body` is written by a function; nothing if that fails.
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
        return Err(Error::new(Reason::PACKET_TOO_LARGE, "the packet is longer than any may be"));
    }
    // Rare: packets written this way are short ones.
    let mut header = Vec::with_capacity(variable_length(length));
    put_variable(&mut header, length);
    out.splice(start + 1..start + 2, header);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_whole_is_waited_for_and_what_is_too_long_is_not() {
        let ping = [0xc0, 0];
        assert!(Frame::split(&ping[..1], 10).unwrap().is_none());
        assert_eq!(Frame::split(&ping, 10).unwrap().unwrap().kind(), Kind::PingReq);
        let long = [0x30, 0xff, 0x7f];
        assert_eq!(Frame::split(&long, 100).unwrap_err().reason, Reason::PACKET_TOO_LARGE);
        assert!(Frame::split(&long, Frame::MAX_BODY).unwrap().is_none());
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
