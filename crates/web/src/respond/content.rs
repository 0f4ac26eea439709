//! Content of files: small content is copied behind its head, larger content is sent from the cache, and large
//! files over plain connections from the kernel's page cache. Those of 32 to 512 KiB are sent without a copy, unless they
//! have just changed.
//!
//! Files that the kernel sends bypass the block cache, because the page cache already holds them. Only bytes that are
//! not in the page cache are read into a buffer.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use phalanx::fs::File;
use phalanx::net::FileTransfer;
use phalanx::time::now;
use phalanx_tls::Wire;

use crate::config::SendMode;
use crate::files::blocks::{BLOCK, block};
use crate::files::entry::{Content, Entry, FileId};
use crate::files::read::read;
use crate::respond::writer::{Destination, ResponseWriter};
use crate::site::Site;
use crate::socket::network::send_file;

/// Largest content copied behind its head, in bytes; larger content is sent from the cache, over plain
/// connections without a copy.
const MAX_COPIED_BYTES: u64 = 16 * 1024;

/// Smallest part that is sent without a copy, in bytes. Below it, the system calls cost more than the copy.
const MIN_ZERO_COPY_BYTES: u64 = 32 * 1024;

/// Bytes of a file that one operation sends. Four blocks amortize the cost of the operation; more would
/// stretch the time limit, which is [`Timeouts::send`] per block.
///
/// [`Timeouts::send`]: crate::config::Timeouts::send
const MAX_SEND_BYTES: u64 = 4 * BLOCK;

/// How a part of a file is sent over a plain connection. A part that needs several operations is always copied: it
/// takes longer to send, so the file is more likely to change, and zero-copy gains nothing, because copies of large
/// parts are fast.
fn transfer(site: &Site, entry: &Entry, part: Part) -> FileTransfer {
    let fits = (MIN_ZERO_COPY_BYTES..=MAX_SEND_BYTES).contains(&part.length());
    if fits && site.send == SendMode::ZeroCopy && entry.is_settled() {
        FileTransfer::ZeroCopy
    } else {
        FileTransfer::Copy
    }
}

/// Range of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Offset of the first byte.
    pub(super) start: u64,
    /// Offset one past the last byte.
    pub(super) end: u64,
}

impl Part {
    pub(super) const NONE: Self = Self { start: 0, end: 0 };

    /// The whole file.
    pub(super) fn all(entry: &Entry) -> Self {
        Self { start: 0, end: entry.length }
    }

    fn length(self) -> u64 {
        self.end - self.start
    }
}

impl ResponseWriter {
    /// Appends or sends part of a file.
    pub(super) async fn content(
        &mut self,
        site: &Arc<Site>,
        entry: &Entry,
        part: Part,
    ) -> io::Result<()> {
        let mut rest = part;
        if let Content::Whole(bytes) = &entry.content
            && part.length() <= MAX_COPIED_BYTES
        {
            let bytes = &bytes[part.start as usize..part.end as usize];
            if let Destination::Connection(_) = self.destination {
                self.buffer.content(bytes);
                return Ok(());
            }
            if !bytes.is_empty() {
                let sent = poll_fn(|context| Poll::Ready(self.send_now(bytes, context))).await?;
                rest.start += sent as u64;
            }
        }
        if rest.length() == 0 {
            return Ok(());
        }
        // Boxed: a connection always reserves the memory of its largest state, also while idle.
        Box::pin(self.send_large(site, entry, rest)).await
    }

    /// Sends part of a file without copying it.
    async fn send_large(&mut self, site: &Arc<Site>, entry: &Entry, part: Part) -> io::Result<()> {
        match &entry.content {
            Content::Whole(bytes) => {
                // Large generated content is sent in blocks, each with its own time limit.
                let mut rest = bytes.slice(part.start as usize..part.end as usize);
                while !rest.is_empty() {
                    let piece = rest.split_to(rest.len().min(BLOCK as usize));
                    self.send_with(piece).await?;
                }
                Ok(())
            }
            Content::Blocks(file) => match &self.destination {
                Destination::Connection(transport) if !transport.is_tls() => {
                    let transport = transport.clone();
                    match transfer(site, entry, part) {
                        transfer if part.length() > BLOCK => {
                            self.file(&transport, site, (file, entry.id), part, transfer).await
                        }
                        FileTransfer::ZeroCopy => {
                            self.cached_file(&transport, site, (file, entry), part).await
                        }
                        // If the data is copied anyway, the server's cache saves a system call compared to the page
                        // cache.
                        FileTransfer::Copy => self.blocks(site, (file, entry), part).await,
                    }
                }
                _ => self.blocks(site, (file, entry), part).await,
            },
        }
    }

    /// Sends part of a file without a copy if it is in the page cache, and the rest from the server's cache.
    async fn cached_file(
        &mut self,
        transport: &Rc<Wire>,
        site: &Arc<Site>,
        (file, entry): (&File, &Entry),
        part: Part,
    ) -> io::Result<()> {
        let (at, length, transfer) = (part.start, part.length(), FileTransfer::ZeroCopy);
        let sent = self.file_piece(transport, (file, at, length), transfer).await?;
        let rest = Part { start: at + sent, ..part };
        if rest.length() > 0 { self.blocks(site, (file, entry), rest).await } else { Ok(()) }
    }

    /// Sends part of a large file block by block. Under memory pressure it reads smaller pieces and does not
    /// read ahead.
    async fn blocks(
        &mut self,
        site: &Arc<Site>,
        (file, entry): (&File, &Entry),
        part: Part,
    ) -> io::Result<()> {
        let (stages, id, memory) = (self.stages.files, entry.id, &site.memory);
        let ask = |n| block(stages, site, file, id, entry.length, n);
        let (mut at, mut ahead) = (part.start, None);
        while at < part.end {
            let n = at / BLOCK;
            let end = part.end.min((n + 1) * BLOCK);
            let (bytes, range) = match ahead.take() {
                None if memory.content.is_full() => {
                    let length = memory.read_size((end - at) as usize);
                    (read(stages, site, file, id, at, length).await?, 0..length)
                }
                asked => {
                    let bytes =
                        asked.unwrap_or_else(|| ask(n)).await.map_err(io::Error::other)??;
                    // Fetch the next block while this one is sent.
                    ahead = (end < part.end && !memory.content.is_full()).then(|| ask(n + 1));
                    let begin = n * BLOCK;
                    (bytes, (at - begin) as usize..(end - begin) as usize)
                }
            };
            if bytes.len() < range.end {
                // The file was truncated. The head has announced more bytes, so the connection must close.
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            at += range.len() as u64;
            self.send_with(bytes.slice(range)).await?;
        }
        Ok(())
    }

    /// Sends part of a file, after the gathered bytes, from the page cache.
    ///
    /// # Errors
    /// Like [`send_with`](Self::send_with); `UnexpectedEof` if the file was truncated. The head has announced more
    /// bytes, so the connection must close.
    async fn file(
        &mut self,
        transport: &Rc<Wire>,
        site: &Arc<Site>,
        (file, id): (&File, FileId),
        part: Part,
        transfer: FileTransfer,
    ) -> io::Result<()> {
        let mut at = part.start;
        while at < part.end {
            let piece = (part.end - at).min(MAX_SEND_BYTES);
            let sent = self.file_piece(transport, (file, at, piece), transfer).await?;
            at += sent;
            if sent < piece {
                let wanted = site.memory.read_size((piece - sent) as usize);
                let bytes = read(self.stages.files, site, file, id, at, wanted).await?;
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
        transport: &Rc<Wire>,
        (file, at, piece): (&File, u64, u64),
        transfer: FileTransfer,
    ) -> io::Result<u64> {
        let head = self.buffer.take();
        let (gathered, begun) = (head.len() as u64, now());
        let timeout = self.pace.timeout(gathered + piece);
        let sent =
            send_file(self.stages, transport, head, (file, at, piece), transfer, timeout).await?;
        self.buffer.reuse(sent.head);
        self.pace.record(gathered + sent.bytes, now() - begun);
        self.buffer.count(sent.bytes);
        Ok(sent.bytes)
    }
}
