//! Response output: small responses are gathered while more requests are pending; large content follows in
//! blocks.

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

/// Gathered bytes that trigger a send.
const FLUSH_THRESHOLD: usize = 64 * 1024;
/// Largest content copied after its head, in bytes; larger content is sent from the cache without a copy.
const MAX_COPIED_BYTES: u64 = 16 * 1024;

/// Destination of responses.
pub(crate) enum To {
    /// An HTTP/1.1 connection, one response after another.
    Connection(Rc<Transport>),
    /// One HTTP/2 stream.
    Stream(Box<StreamAnswer>),
}

/// Response output of a connection or a stream.
pub(crate) struct Outgoing {
    pub(crate) to: To,
    pub(crate) stages: Stages,
    pub(crate) pace: Pace,
    pub(crate) bytes: Vec<u8>,
    /// Status and size of the current response, for the access log.
    pub(crate) stats: ResponseStats,
    /// Authenticated user, if requests are logged.
    pub(crate) user: Option<Box<Credentials>>,
}

impl Outgoing {
    /// Whether responses are sent over TLS.
    pub(crate) fn is_tls(&self) -> bool {
        match &self.to {
            To::Connection(transport) => transport.is_tls(),
            To::Stream(stream) => stream.is_tls(),
        }
    }

    fn is_connection(&self) -> bool {
        matches!(self.to, To::Connection(_))
    }

    /// Sends the gathered bytes.
    pub(crate) async fn send(&mut self) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        self.send_with(Bytes::new()).await
    }

    /// Sends the gathered bytes if they exceed [`FLUSH_THRESHOLD`].
    pub(crate) async fn send_if_full(&mut self) -> io::Result<()> {
        if self.bytes.len() >= FLUSH_THRESHOLD { self.send().await } else { Ok(()) }
    }

    /// Sends the gathered bytes followed by `body`.
    pub(super) async fn send_with(&mut self, body: Bytes) -> io::Result<()> {
        self.stats.observe(&self.bytes);
        let payload = Payload { head: std::mem::take(&mut self.bytes), body };
        let (length, begun) = (payload.len() as u64, now());
        let timeout = self.pace.timeout(length);
        self.bytes = match &mut self.to {
            To::Connection(transport) => send(self.stages, transport, payload, timeout).await?,
            // Boxed, so that HTTP/1.1 connections do not reserve its memory.
            To::Stream(stream) => Box::pin(stream.send(payload, timeout)).await?,
        };
        self.pace.sent(length, now() - begun);
        self.stats.sent(length);
        Ok(())
    }

    /// Appends or sends part of a file.
    pub(crate) async fn content(
        &mut self,
        site: &Arc<Site>,
        entry: &Entry,
        part: Part,
    ) -> io::Result<()> {
        match &entry.content {
            _ if part.length() == 0 => Ok(()),
            // An HTTP/1.1 body follows its head directly; HTTP/2 sends it in frames of its own.
            Content::Whole(bytes) if part.length() <= MAX_COPIED_BYTES && self.is_connection() => {
                let range = part.start as usize..part.end as usize;
                self.bytes.extend_from_slice(&bytes[range]);
                Ok(())
            }
            // Boxed: a connection always reserves the memory of its largest state, also while idle.
            _ => Box::pin(self.send_large(site, entry, part)).await,
        }
    }

    /// Sends part of a file without copying it.
    async fn send_large(&mut self, site: &Arc<Site>, entry: &Entry, part: Part) -> io::Result<()> {
        match &entry.content {
            Content::Whole(bytes) => {
                let range = part.start as usize..part.end as usize;
                if part.length() <= BLOCK {
                    return self.send_with(bytes.slice(range)).await;
                }
                // Large generated content is sent in blocks, each with its own time limit.
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

    /// Sends part of a large file block by block. Under memory pressure it reads smaller pieces and does not
    /// read ahead.
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
                    // Fetch the next block while this one is sent.
                    ahead = (end < part.end && !memory.content.is_full()).then(|| ask(n + 1));
                    let begin = n * BLOCK;
                    (bytes, (at - begin) as usize..(end - begin) as usize)
                }
            };
            if bytes.len() < range.end {
                // The file was truncated. The head has promised more bytes, so the connection must close.
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            at += range.len() as u64;
            self.send_with(bytes.slice(range)).await?;
        }
        Ok(())
    }
}
