//! Encodes replies of the Redis protocol (RESP2).

use std::borrow::Cow;

use phalanx::net::Bytes;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Simple(&'static str),
    /// A code in capitals, a space, and a message without line breaks.
    Error(Cow<'static, str>),
    Integer(i64),
    Bulk(Bytes),
    Nil,
    Array(Vec<Reply>),
}

impl Reply {
    pub(crate) const OK: Self = Self::Simple("OK");

    pub(crate) fn bulk(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Bulk(Bytes::from(bytes.into()))
    }

    pub(crate) fn error(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Error(message.into())
    }

    /// Appends the reply to `out`.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Simple(text) => line(b'+', text.as_bytes(), out),
            Self::Error(text) => line(b'-', text.as_bytes(), out),
            Self::Integer(number) => integer(b':', *number, out),
            Self::Bulk(bytes) => {
                integer(b'$', bytes.len(), out);
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            Self::Nil => out.extend_from_slice(b"$-1\r\n"),
            Self::Array(replies) => {
                write_array_head(replies.len(), out);
                replies.iter().for_each(|reply| reply.write(out));
            }
        }
    }
}

/// Appends the beginning of an array, which its elements follow.
pub(crate) fn write_array_head(length: usize, out: &mut Vec<u8>) {
    integer(b'*', length, out);
}

fn line(kind: u8, text: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn integer(kind: u8, number: impl itoa::Integer, out: &mut Vec<u8>) {
    line(kind, itoa::Buffer::new().format(number).as_bytes(), out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use redis_protocol::resp2::decode::decode;
    use redis_protocol::resp2::types::OwnedFrame;

    fn reply() -> impl Strategy<Value = Reply> {
        let leaf = prop_oneof![
            Just(Reply::OK),
            "ERR [ -~]{0,20}".prop_map(Reply::error),
            any::<i64>().prop_map(Reply::Integer),
            proptest::collection::vec(any::<u8>(), 0..40).prop_map(Reply::bulk),
            Just(Reply::Nil),
        ];
        leaf.prop_recursive(3, 20, 5, |inner| {
            proptest::collection::vec(inner, 0..5).prop_map(Reply::Array)
        })
    }

    /// The same reply as a type of another implementation.
    fn frame(reply: &Reply) -> OwnedFrame {
        match reply {
            Reply::Simple(text) => OwnedFrame::SimpleString(text.as_bytes().to_vec()),
            Reply::Error(text) => OwnedFrame::Error(text.to_string()),
            Reply::Integer(number) => OwnedFrame::Integer(*number),
            Reply::Bulk(bytes) => OwnedFrame::BulkString(bytes.to_vec()),
            Reply::Nil => OwnedFrame::Null,
            Reply::Array(replies) => OwnedFrame::Array(replies.iter().map(frame).collect()),
        }
    }

    proptest! {
        /// Another decoder decodes the same reply, and all bytes.
        #[test]
        fn replies_are_decoded_by_another_implementation(reply in reply()) {
            let mut bytes = Vec::new();
            reply.write(&mut bytes);
            let (decoded, length) = decode(&bytes).expect("well formed").expect("whole");
            prop_assert_eq!((decoded, length), (frame(&reply), bytes.len()));
        }
    }
}
