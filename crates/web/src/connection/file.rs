//! A large file's content on its way out of a connection whose bytes leave as they are: copied by the
//! kernel from its own memory of the file, with none of ours. Only what is not there is read.
//!
//! Such a file is not kept in the cache of blocks either: the kernel keeps it already.

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

/// Bytes of a file that one operation sends: with a block each, what it does besides costs as much as
/// the sending. Not more, since a client has so many times [`Timeouts::send`] to take it.
///
/// [`Timeouts::send`]: crate::config::Timeouts::send
const MAX_SEND_BYTES: u64 = 4 * BLOCK;

impl Outgoing {
    /// The connection, if `part` of a file is to leave it so. What is smaller is sent from the cache, by
    /// a call less.
    pub(super) fn sends_files(&self, part: Part) -> Option<Rc<Transport>> {
        match &self.to {
            To::Connection(transport) if part.length() > BLOCK && !transport.is_sealed() => {
                Some(transport.clone())
            }
            _ => None,
        }
    }

    /// Sends part of a file. What was gathered leaves before it.
    ///
    /// # Errors
    /// As [`Outgoing::send`]; `UnexpectedEof` when the file was cut off under us. The head promised more,
    /// so all that is left to say is by closing.
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

    /// Sends what was gathered, and of the `piece` of the file at `at` what is in memory: so many bytes.
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
