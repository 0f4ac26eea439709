//! Sending large files over plain connections: the kernel copies from its page cache to the socket. Only
//! bytes that are not in the page cache are read into a buffer.
//!
//! These files bypass the block cache, because the page cache already holds them.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use phalanx::fs::File;
use phalanx::time::now;

use crate::connection::answer::Part;
use crate::connection::network::send_file;
use crate::connection::outgoing::{Outgoing, To};
use crate::connection::transport::Transport;
use crate::files::aggregator;
use crate::files::blocks::BLOCK;
use crate::files::entry::FileId;
use crate::site::Site;

/// Bytes of a file that one operation sends. Four blocks amortize the cost of the operation; more would
/// stretch the time limit, which is [`Timeouts::send`] per block.
///
/// [`Timeouts::send`]: crate::config::Timeouts::send
const MAX_SEND_BYTES: u64 = 4 * BLOCK;

impl Outgoing {
    /// Returns the connection if `part` should be sent from the page cache. Smaller parts are sent from the
    /// server's cache with one system call less.
    pub(super) fn sends_files(&self, part: Part) -> Option<Rc<Transport>> {
        match &self.to {
            To::Connection(transport) if part.length() > BLOCK && !transport.is_tls() => {
                Some(transport.clone())
            }
            _ => None,
        }
    }

    /// Sends part of a file, after the gathered bytes.
    ///
    /// # Errors
    /// As [`Outgoing::send`]; `UnexpectedEof` if the file was truncated meanwhile. The head has promised more
    /// bytes, so the connection must close.
    pub(super) async fn file(
        &mut self,
        transport: &Rc<Transport>,
        site: &Arc<Site>,
        (file, id): (&File, FileId),
        part: Part,
    ) -> io::Result<()> {
        let mut at = part.start;
        while at < part.end {
            let piece = (part.end - at).min(MAX_SEND_BYTES);
            let sent = self.file_piece(transport, file, at, piece).await?;
            at += sent;
            if sent < piece {
                let wanted = site.memory.read_size((piece - sent) as usize);
                let bytes = aggregator::read(self.stages, site, file, id, at, wanted).await?;
                if bytes.len() < wanted {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                at += wanted as u64;
                self.send_with(bytes).await?;
            }
        }
        Ok(())
    }

    /// Sends the gathered bytes and the cached bytes of the `piece` at offset `at`. Returns how many of the
    /// piece were sent.
    async fn file_piece(
        &mut self,
        transport: &Rc<Transport>,
        file: &File,
        at: u64,
        piece: u64,
    ) -> io::Result<u64> {
        self.stats.observe(&self.bytes);
        let head = std::mem::take(&mut self.bytes);
        let (gathered, begun) = (head.len() as u64, now());
        let timeout = self.pace.timeout(gathered + piece);
        let sent = send_file(self.stages, transport, head, (file, at, piece), timeout).await?;
        self.bytes = sent.head;
        self.pace.sent(gathered + sent.bytes, now() - begun);
        self.stats.sent(gathered + sent.bytes);
        Ok(sent.bytes)
    }
}
