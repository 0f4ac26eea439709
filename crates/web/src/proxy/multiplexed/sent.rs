//! The start of a request's body, kept until the server has processed the request, so that it can be sent again.

use phalanx::net::Bytes;

use crate::upstream::Group;

/// Size of the bodies that are kept, in bytes.
const MAX_KEPT: usize = 64 * 1024;

/// The part of a body that was sent.
#[derive(Default)]
pub(in crate::proxy) struct Sent {
    pieces: Vec<Bytes>,
    length: usize,
    /// Whether the pieces are not all that was sent.
    is_partial: bool,
}

impl Sent {
    /// Keeps another piece, unless there would be too much.
    pub(in crate::proxy) fn add(&mut self, piece: &Bytes) {
        self.length += piece.len();
        if self.is_partial || self.length > MAX_KEPT {
            return self.forget();
        }
        self.pieces.push(piece.clone());
    }

    /// Frees the pieces, because the server has responded or there are too many.
    pub(in crate::proxy) fn forget(&mut self) {
        (self.pieces, self.is_partial) = (Vec::new(), true);
    }

    /// The pieces, to send them again.
    pub(in crate::proxy) fn pieces(&self) -> Vec<Bytes> {
        self.pieces.clone()
    }

    /// Whether the request can be sent again to any server of the group. HTTP/1.1 takes bodies only from the client.
    pub(in crate::proxy) fn may_repeat(&self, group: &Group) -> bool {
        let is_empty = self.pieces.is_empty() && !self.is_partial;
        let all = group.members.iter().all(|member| member.upstream.is_http2);
        is_empty || all && !self.is_partial
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Proxy;

    #[test]
    fn small_bodies_can_be_sent_again() {
        let group = |urls: &[&str]| {
            let to = urls.iter().map(|url| url.parse().unwrap()).collect();
            Group::new(&Proxy { to, ..Proxy::default() }, 1, None)
        };
        let (all, some) = (group(&["h2c://a", "h2c://b"]), group(&["h2c://a", "http://b"]));
        let mut sent = Sent::default();
        assert!(sent.may_repeat(&all) && sent.may_repeat(&some));
        sent.add(&Bytes::from_static(b"abc"));
        assert!(sent.may_repeat(&all) && !sent.may_repeat(&some));
        assert_eq!(sent.pieces(), ["abc"]);
        sent.add(&vec![0; MAX_KEPT - 3].into());
        assert!(sent.may_repeat(&all));
        sent.add(&Bytes::from_static(b"d"));
        assert!(!sent.may_repeat(&all) && sent.pieces().is_empty());
    }
}
