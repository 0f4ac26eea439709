//! A request to the simulated proxy.

use phalanx::sim::Net;

/// A request.
pub(super) struct ProxiedRequest {
    pub(super) method: &'static str,
    pub(super) name: String,
    /// The length of the body.
    pub(super) body: usize,
    pub(super) text: String,
}

impl ProxiedRequest {
    pub(super) fn random(net: &Net, name: String) -> Self {
        let method = ["GET", "GET", "HEAD", "POST", "PUT"][net.draw(5) as usize];
        let mut text = format!("{method} /{name} HTTP/1.1\r\nHost: sim\r\n");
        let mut body = 0;
        if matches!(method, "POST" | "PUT") {
            body = random_length(net, 5000);
            if net.draw(2) == 0 {
                text += &format!("Content-Length: {body}\r\n\r\n{}", "b".repeat(body));
            } else {
                let first = net.draw(body as u64 + 1) as usize;
                text += "Transfer-Encoding: chunked\r\n\r\n";
                for length in [first, body - first].into_iter().filter(|length| *length > 0) {
                    text += &format!("{length:x}\r\n{}\r\n", "b".repeat(length));
                }
                text += "0\r\n\r\n";
            }
        } else {
            text += "\r\n";
        }
        Self { method, name, body, text }
    }

    /// Whether the server expects a body, which may be empty.
    pub(super) fn has_body(&self) -> bool {
        !self.text.ends_with("\r\nContent-Length: 0\r\n\r\n")
            && matches!(self.method, "POST" | "PUT")
    }
}

/// The length of a body below `limit`. Few are long: the program may receive as little as five bytes at a time, and takes
/// several steps for each piece.
pub(super) fn random_length(net: &Net, limit: u64) -> usize {
    let limit = if net.draw(16) == 0 { limit } else { 200 };
    net.draw(limit) as usize
}
