//! The control stage: an operation that is a connection's whole life.
//!
//! Requests that have arrived are answered one after the other, their answers gathered in one
//! buffer, and sent together when no whole request is left: a pipelining client costs one send for
//! all that it asked at once.

use std::io;
use std::net::Shutdown;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::net::Stream;
use phalanx::{Admission, Bytes, Patience, Payload, Permit, Shared, is_draining, now};
use phalanx_http::{
    Body, Discard, Method, Parse, Reply, Request, Scan, Status, error_page, options, path,
};

use crate::answer::{self, Part};
use crate::blocks::{BLOCK, block};
use crate::clock::with_date;
use crate::entry::{Content, Entry};
use crate::lookup::{Found, Looked, look_up};
use crate::network::{Buffers, Received, converse, send};
use crate::refusal::refuse;
use crate::stages::{Site, Stages};

/// Gathered answers are sent when there are this many bytes of them.
const GATHER: usize = 64 * 1024;
/// A body up to this size is copied behind its head; a larger one is sent from the cache.
const COPY: u64 = 16 * 1024;
/// After an error the client is listened to for so long, so that it gets to read the answer before
/// the connection is reset under it (RFC 9112 §9.6).
const LINGER: Duration = Duration::from_secs(1);
/// And for so many bytes.
const LINGER_BYTES: usize = 256 * 1024;

/// One client's connection.
pub(crate) struct Connection {
    stream: Rc<Stream>,
    stages: Stages,
    site: Arc<Site>,
    /// Who asks here is let in, or not.
    entry: Option<Admission>,
    /// Held from a request's admission until its answer is sent: a connection works on one request
    /// at a time, so it needs no second.
    permit: Option<Permit>,
    /// A request was refused since the last send.
    refused: bool,
    /// What was received; the first `taken` bytes are done with.
    input: Vec<u8>,
    taken: usize,
    scan: Scan,
    /// When the first bytes came of a request that is not whole yet.
    begun: Option<Duration>,
    out: Outgoing,
    /// Kept for its memory.
    path: Vec<u8>,
}

/// What becomes of the connection.
enum Next {
    Request,
    Close,
    /// Close, but let the client read first.
    Linger,
}

impl Connection {
    pub(crate) fn new(
        stream: Stream,
        stages: Stages,
        site: Shared<Arc<Site>>,
        entry: Option<Admission>,
    ) -> Self {
        let (stream, site) = (Rc::new(stream), Arc::clone(&site));
        let out = Outgoing {
            stream: stream.clone(),
            stages,
            patience: Patience::limit(site.timeouts.send),
            bytes: Vec::new(),
        };
        let (input, path) = (Vec::new(), Vec::new());
        Self {
            stream,
            stages,
            site,
            entry,
            permit: None,
            refused: false,
            input,
            taken: 0,
            scan: Scan::default(),
            begun: None,
            out,
            path,
        }
    }

    /// Serves until the client leaves, errs or is told to leave.
    pub(crate) async fn serve(mut self) {
        loop {
            match self.turn().await {
                Ok(Next::Request) => (),
                Ok(Next::Linger) => return self.linger().await,
                Ok(Next::Close) | Err(_) => return,
            }
        }
    }

    /// Answers one request, or waits for more of it.
    async fn turn(&mut self) -> io::Result<Next> {
        let Self {
            input, taken, scan, begun, out, site, stages, path, entry, permit, refused, ..
        } = self;
        if *taken == input.len() {
            return self.receive().await;
        }
        let (request, length) = match scan.parse(&input[*taken..], &site.limits) {
            Ok(Parse::Complete(request, length)) => (request, length),
            Ok(Parse::Incomplete) => {
                // What is left of the input is the beginning of a request.
                begun.get_or_insert_with(now);
                return self.receive().await;
            }
            Err(reject) => return self.refuse(reject.status).await,
        };
        *begun = None;
        let after = *taken + length;
        let reply =
            Reply { keep_alive: request.keep_alive && !is_draining(), ..Reply::to(&request) };
        let body = match request.body {
            Body::None => None,
            body => match Discard::new(body, &site.limits) {
                Ok(discard) => Some(discard),
                // Too large to be passed over: said now, for after the answer it could not be.
                Err(reject) => return self.refuse(reject.status).await,
            },
        };
        let expects = body.is_some() && request.expect_continue;
        let reply = if expects { reply.closing() } else { reply };
        if let (None, Some(entry)) = (&permit, &entry) {
            *permit = entry.admit().ok();
        }
        if permit.is_some() || entry.is_none() {
            answer(out, *stages, site, path, &request, reply).await?;
        } else {
            *refused = true;
            refuse(&mut out.bytes, reply);
            if out.bytes.len() >= GATHER {
                out.send().await?;
            }
        }
        *taken = after;
        if !reply.keep_alive {
            out.send().await?;
            return Ok(if body.is_none() && self.input.len() == after {
                Next::Close
            } else {
                Next::Linger
            });
        }
        if let Some(body) = body
            && !self.discard(body).await
        {
            self.out.send().await?;
            return Ok(Next::Linger);
        }
        Ok(Next::Request)
    }

    /// Answers with an error of the request itself; the connection cannot go on after it.
    async fn refuse(&mut self, status: Status) -> io::Result<Next> {
        with_date(|date| error_page(&mut self.out.bytes, status, date, Reply::CLOSE));
        self.out.send().await?;
        Ok(Next::Linger)
    }

    /// Sends what was gathered, then waits for more of the client's bytes.
    async fn receive(&mut self) -> io::Result<Next> {
        self.input.drain(..self.taken);
        self.taken = 0;
        let timeouts = &self.site.timeouts;
        // One limit for all bytes of a request, however they come.
        let patience = match self.begun {
            None => Patience::limit(timeouts.idle).or_drain(),
            Some(begun) => Patience::limit(timeouts.request.saturating_sub(now() - begun)),
        };
        match self.more(patience).await {
            Received::Bytes(1..) => {
                self.begun.get_or_insert_with(now);
                Ok(Next::Request)
            }
            Received::TimedOut if self.begun.is_some() => self.refuse(Status::RequestTimeout).await,
            _ => Ok(Next::Close),
        }
    }

    /// Sends what was gathered, then appends to the input what the client sends next.
    async fn more(&mut self, patience: Patience) -> Received {
        let out = std::mem::take(&mut self.out.bytes);
        let (input, permit) = (std::mem::take(&mut self.input), self.permit.take());
        let refused = std::mem::take(&mut self.refused);
        let buffers = Buffers { out, input, permit };
        let sending = self.out.patience;
        let (buffers, received) =
            converse(self.stages, &self.stream, buffers, refused, sending, patience).await;
        (self.out.bytes, self.input) = (buffers.out, buffers.input);
        received
    }

    /// Reads a body that nobody wants. False when the connection cannot go on.
    async fn discard(&mut self, mut body: Discard) -> bool {
        let begun = now();
        loop {
            match body.feed(&self.input[self.taken..]) {
                Ok(bytes) => self.taken += bytes,
                Err(_) => return false,
            }
            if body.is_done() {
                return true;
            }
            self.input.clear();
            self.taken = 0;
            let limit = self.site.timeouts.request.saturating_sub(now() - begun);
            if !matches!(self.more(Patience::limit(limit)).await, Received::Bytes(1..)) {
                return false;
            }
        }
    }

    /// Says that nothing more comes, and reads on for a moment.
    async fn linger(mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
        let (begun, mut bytes) = (now(), 0);
        while now() - begun < LINGER && bytes < LINGER_BYTES {
            self.input.clear();
            let patience = Patience::limit(LINGER.saturating_sub(now() - begun)).or_drain();
            let Received::Bytes(more @ 1..) = self.more(patience).await else { return };
            bytes += more;
        }
    }
}

/// Answers one request into `out`.
async fn answer(
    out: &mut Outgoing,
    stages: Stages,
    site: &Arc<Site>,
    path: &mut Vec<u8>,
    request: &Request<'_>,
    reply: Reply,
) -> io::Result<()> {
    let error = |out: &mut Outgoing, status| {
        with_date(|date| error_page(&mut out.bytes, status, date, reply));
    };
    match request.method {
        Method::Get | Method::Head => (),
        Method::Options => {
            with_date(|date| options(&mut out.bytes, date, reply));
            return Ok(());
        }
        Method::Other(method) => {
            error(out, answer::refused_method(method));
            return Ok(());
        }
    }
    let resolved = match path::resolve(request.path.as_bytes(), path) {
        Ok(resolved) => resolved,
        Err(refused) => {
            error(out, refused.status());
            return Ok(());
        }
    };
    if resolved.directory {
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(b"index.html");
    }
    let looked: Looked;
    (*path, looked) = look_up(stages, site, std::mem::take(path)).await;
    match looked {
        Ok(Found::File(entry)) => {
            let part = with_date(|date| answer::file(&mut out.bytes, request, &entry, date, reply));
            out.content(site, &entry, part).await?;
        }
        // An index that is itself a directory is none.
        Ok(Found::Directory) if resolved.directory => error(out, Status::NotFound),
        Ok(Found::Directory) => {
            with_date(|date| answer::directory(&mut out.bytes, request, path, date, reply));
        }
        Err(failure) => error(out, answer::status(failure)),
    }
    if out.bytes.len() >= GATHER { out.send().await } else { Ok(()) }
}

/// Answers on their way out.
struct Outgoing {
    stream: Rc<Stream>,
    stages: Stages,
    patience: Patience,
    bytes: Vec<u8>,
}

impl Outgoing {
    /// Sends what was gathered.
    async fn send(&mut self) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        self.send_with(Bytes::new()).await
    }

    /// Sends what was gathered, and `body` behind it.
    async fn send_with(&mut self, body: Bytes) -> io::Result<()> {
        let payload = Payload { head: std::mem::take(&mut self.bytes), body };
        self.bytes = send(self.stages, &self.stream, payload, self.patience).await?;
        Ok(())
    }

    /// Adds part of a file.
    async fn content(&mut self, site: &Arc<Site>, entry: &Entry, part: Part) -> io::Result<()> {
        match &entry.content {
            _ if part.length() == 0 => Ok(()),
            Content::Whole(bytes) => {
                let range = part.start as usize..part.end as usize;
                if part.length() <= COPY {
                    self.bytes.extend_from_slice(&bytes[range]);
                    return Ok(());
                }
                self.send_with(bytes.slice(range)).await
            }
            Content::Blocks(file) => {
                let stages = self.stages;
                let ask = |n| block(stages, site, file, entry.id, entry.length, n);
                let last = (part.end - 1) / BLOCK;
                let mut ahead = Some(ask(part.start / BLOCK));
                for n in part.start / BLOCK..=last {
                    let Some(call) = ahead.take() else { break };
                    let bytes = call.await.map_err(io::Error::other)??;
                    // The next block is fetched while this one is sent.
                    ahead = (n < last).then(|| ask(n + 1));
                    let begin = n * BLOCK;
                    let from = part.start.saturating_sub(begin) as usize;
                    let to = (part.end - begin).min(BLOCK) as usize;
                    if bytes.len() < to {
                        // Cut off under us. The head promised more, so all that is left to say is
                        // by closing.
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    self.send_with(bytes.slice(from..to)).await?;
                }
                Ok(())
            }
        }
    }
}
