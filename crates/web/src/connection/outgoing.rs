//! Answers on their way out: gathered while there are more requests to answer, a large file's content
//! behind them block by block.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use phalanx::fs::File;
use phalanx::net::{Bytes, Payload};
use phalanx::time::now;

use crate::auth::credentials::Credentials;
use crate::connection::answer::Part;
use crate::connection::network::send;
use crate::connection::pace::Pace;
use crate::connection::response_stats::ResponseStats;
use crate::connection::transport::Transport;
use crate::files::aggregator;
use crate::files::blocks::{BLOCK, block};
use crate::files::entry::{Content, Entry};
use crate::http2::answer::StreamAnswer;
use crate::site::Site;
use crate::stages::Stages;

/// Gathered answers are sent when there are this many bytes of them.
const FLUSH_THRESHOLD: usize = 64 * 1024;
/// A body up to this size is copied behind its head; a larger one is sent from the cache.
const MAX_COPIED_BYTES: u64 = 16 * 1024;

/// Where answers go.
pub(crate) enum To {
    /// One behind the other onto a connection of their own.
    Connection(Rc<Transport>),
    /// One onto a stream of a connection of HTTP/2.
    Stream(Box<StreamAnswer>),
}

/// Answers on their way out.
pub(crate) struct Outgoing {
    pub(crate) to: To,
    pub(crate) stages: Stages,
    pub(crate) pace: Pace,
    pub(crate) bytes: Vec<u8>,
    /// What has become of the answer that is written down, where answers are.
    pub(crate) stats: ResponseStats,
    /// Who has asked, where a password says so and answers are written down.
    pub(crate) user: Option<Box<Credentials>>,
}

impl Outgoing {
    /// Whether they leave by TLS.
    pub(crate) fn is_sealed(&self) -> bool {
        match &self.to {
            To::Connection(transport) => transport.is_sealed(),
            To::Stream(stream) => stream.is_sealed(),
        }
    }

    fn is_connection(&self) -> bool {
        matches!(self.to, To::Connection(_))
    }

    /// Sends what was gathered.
    pub(crate) async fn send(&mut self) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        self.send_with(Bytes::new()).await
    }

    /// Sends what was gathered once it is much.
    pub(crate) async fn send_if_full(&mut self) -> io::Result<()> {
        if self.bytes.len() >= FLUSH_THRESHOLD { self.send().await } else { Ok(()) }
    }

    /// Sends what was gathered, and `body` behind it.
    pub(super) async fn send_with(&mut self, body: Bytes) -> io::Result<()> {
        self.stats.observe(&self.bytes);
        let payload = Payload { head: std::mem::take(&mut self.bytes), body };
        let (length, begun) = (payload.len() as u64, now());
        let timeout = self.pace.timeout(length);
        self.bytes = match &mut self.to {
            To::Connection(transport) => send(self.stages, transport, payload, timeout).await?,
            // Boxed: a connection of HTTP/1.1 would hold the memory for it.
            To::Stream(stream) => Box::pin(stream.send(payload, timeout)).await?,
        };
        self.pace.sent(length, now() - begun);
        self.stats.sent(length);
        Ok(())
    }

    /// Adds part of a file.
    pub(crate) async fn content(
        &mut self,
        site: &Arc<Site>,
        entry: &Entry,
        part: Part,
    ) -> io::Result<()> {
        match &entry.content {
            _ if part.length() == 0 => Ok(()),
            // Behind its head on a connection; a stream has frames of its own for it.
            Content::Whole(bytes) if part.length() <= MAX_COPIED_BYTES && self.is_connection() => {
                let range = part.start as usize..part.end as usize;
                self.bytes.extend_from_slice(&bytes[range]);
                Ok(())
            }
            // Boxed: a connection holds the memory of its largest part, also while it is idle.
            _ => Box::pin(self.large(site, entry, part)).await,
        }
    }

    /// Adds part of a file that is not copied.
    async fn large(&mut self, site: &Arc<Site>, entry: &Entry, part: Part) -> io::Result<()> {
        match &entry.content {
            Content::Whole(bytes) => {
                let range = part.start as usize..part.end as usize;
                if part.length() <= BLOCK {
                    return self.send_with(bytes.slice(range)).await;
                }
                // Something made that is large: each piece has its time, as a block has.
                let mut rest = bytes.slice(range);
                while !rest.is_empty() {
                    let piece = rest.split_to(rest.len().min(BLOCK as usize));
                    self.send_with(piece).await?;
                }
                Ok(())
            }
            Content::Blocks(file) => {
                if let Some(transport) = self.sends_files(part) {
                    return self.file(&transport, site, (file, entry.id), part).await;
                }
                self.blocks(site, (file, entry), part).await
            }
        }
    }

    /// Adds part of a large file, block by block. Where too much content is in memory, it is read in smaller
    /// pieces and not ahead.
    async fn blocks(
        &mut self,
        site: &Arc<Site>,
        (file, entry): (&File, &Entry),
        part: Part,
    ) -> io::Result<()> {
        let (stages, id, memory) = (self.stages, entry.id, &site.memory);
        let ask = |n| block(stages, site, file, id, entry.length, n);
        let (mut at, mut ahead) = (part.start, None);
        while at < part.end {
            let n = at / BLOCK;
            let end = part.end.min((n + 1) * BLOCK);
            let (bytes, range) = match ahead.take() {
                None if memory.content.is_full() => {
                    let length = memory.read_size((end - at) as usize);
                    (aggregator::read(stages, site, file, id, at, length).await?, 0..length)
                }
                asked => {
                    let bytes =
                        asked.unwrap_or_else(|| ask(n)).await.map_err(io::Error::other)??;
                    // The next block is fetched while this one is sent.
                    ahead = (end < part.end && !memory.content.is_full()).then(|| ask(n + 1));
                    let begin = n * BLOCK;
                    (bytes, (at - begin) as usize..(end - begin) as usize)
                }
            };
            if bytes.len() < range.end {
                // Cut off under us. The head promised more, so all that is left to say is by closing.
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            at += range.len() as u64;
            self.send_with(bytes.slice(range)).await?;
        }
        Ok(())
    }
}
