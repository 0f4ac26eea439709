//! Appends frames to a buffer.

use std::io::Write;

use crate::codec::Frame;

impl Frame<'_> {
    /// Appends the frame. Subjects have to be [valid](crate::is_filter).
    pub fn encode(&self, out: &mut Vec<u8>) {
        // Writing to memory does not fail.
        let _ = match *self {
            Self::Info(json) => write!(out, "INFO {json}\r\n"),
            Self::Connect(json) => write!(out, "CONNECT {json}\r\n"),
            Self::Ok => write!(out, "+OK\r\n"),
            Self::Error(message) => write!(out, "-ERR '{message}'\r\n"),
            Self::Ping => write!(out, "PING\r\n"),
            Self::Pong => write!(out, "PONG\r\n"),
            Self::Subscribe { subject, queue: None, id } => write!(out, "SUB {subject} {id}\r\n"),
            Self::Subscribe { subject, queue: Some(queue), id } => {
                write!(out, "SUB {subject} {queue} {id}\r\n")
            }
            Self::Unsubscribe { id, max: None } => write!(out, "UNSUB {id}\r\n"),
            Self::Unsubscribe { id, max: Some(max) } => write!(out, "UNSUB {id} {max}\r\n"),
            Self::Publish { subject, reply, headers, payload } => {
                let verb = if headers.is_some() { "HPUB" } else { "PUB" };
                let _ = write!(out, "{verb} {subject}");
                put_sized(out, reply, headers, payload)
            }
            Self::Message { subject, id, reply, headers, payload } => {
                let verb = if headers.is_some() { "HMSG" } else { "MSG" };
                let _ = write!(out, "{verb} {subject} {id}");
                put_sized(out, reply, headers, payload)
            }
        };
    }
}

/// Appends the rest of a frame with a payload.
fn put_sized(
    out: &mut Vec<u8>,
    reply: Option<&str>,
    headers: Option<&[u8]>,
    payload: &[u8],
) -> std::io::Result<()> {
    if let Some(reply) = reply {
        write!(out, " {reply}")?;
    }
    if let Some(headers) = headers {
        write!(out, " {}", headers.len())?;
    }
    write!(out, " {}\r\n", headers.map_or(0, <[u8]>::len) + payload.len())?;
    out.extend_from_slice(headers.unwrap_or_default());
    out.extend_from_slice(payload);
    out.write_all(b"\r\n")
}
