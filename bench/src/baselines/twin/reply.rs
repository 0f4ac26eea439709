//! A worker's answer to a request: the file or an error.

use std::io::{self, IoSlice};
use std::time::{SystemTime, UNIX_EPOCH};

use phalanx_http::{
    ALLOW, CONTINUE, DateLine, Method, Outcome, Ranged, Reply, Request, ResponseBuffer, Status,
    error_fields, evaluate, path, range,
};

use super::file::{self, File};
use super::worker::Connection;
use super::worker::{BLOCK, Worker};

/// Appends a complete response with a small page that names the status.
fn error_page(out: &mut ResponseBuffer, status: Status, date: &DateLine, reply: Reply) {
    out.head(status, date, reply).fields(error_fields(status, None).all()).page();
}

impl Worker {
    /// Sends the last answer on a connection whose request is invalid.
    pub(super) fn refuse(
        &mut self,
        connection: &mut impl Connection,
        status: Status,
    ) -> io::Result<()> {
        self.look_at_the_clock();
        self.head.clear();
        error_page(&mut self.head, status, &self.date, Reply::CLOSE);
        connection.write_all(self.head.bytes())
    }

    fn look_at_the_clock(&mut self) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        self.date.update(since.map_or(0, |since| since.as_secs()));
    }

    /// Answers a request, whose body is `too_large` or will be discarded.
    pub(super) fn answer(
        &mut self,
        connection: &mut impl Connection,
        request: &Request<'_>,
        keep_alive: bool,
        too_large: bool,
    ) -> io::Result<()> {
        self.look_at_the_clock();
        self.head.clear();
        if request.expect_continue && keep_alive {
            self.head.content(CONTINUE);
        }
        let reply = Reply { keep_alive, ..Reply::to(request) };
        let found = match request.method {
            _ if too_large => Err(Status::ContentTooLarge),
            Method::Get | Method::Head => self.find(request),
            Method::Options => {
                let head = self.head.head(Status::NoContent, &self.date, reply);
                head.field("Allow", ALLOW.as_bytes()).finish();
                return connection.write_all(self.head.bytes());
            }
            _ => Err(Status::MethodNotAllowed),
        };
        match found {
            Ok(file) => self.send(connection, request, reply, &file),
            Err(status) => {
                error_page(&mut self.head, status, &self.date, reply);
                connection.write_all(self.head.bytes())
            }
        }
    }

    fn find(&mut self, request: &Request<'_>) -> Result<File, Status> {
        let resolved = path::resolve(request.path.as_bytes(), &mut self.path);
        let resolved = resolved.map_err(path::PathError::status)?;
        if resolved.directory {
            let separator: &[u8] = if self.path.is_empty() { b"" } else { b"/" };
            self.path.extend_from_slice(separator);
            self.path.extend_from_slice(b"index.html");
        }
        match file::open(&self.root, &self.path) {
            Ok(Some(file)) => Ok(file),
            Ok(None) => Err(Status::NotFound),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(Status::Forbidden),
            Err(_) => Err(Status::NotFound),
        }
    }

    fn send(
        &mut self,
        connection: &mut impl Connection,
        request: &Request<'_>,
        reply: Reply,
        file: &File,
    ) -> io::Result<()> {
        let (head, date) = (&mut self.head, &self.date);
        let short = match evaluate(request, &file.validators()) {
            Outcome::Proceed => None,
            Outcome::NotModified => Some(Status::NotModified),
            Outcome::PreconditionFailed => Some(Status::PreconditionFailed),
        };
        let (start, end) = match short {
            Some(Status::NotModified) => {
                file.identify(head.head(Status::NotModified, date, reply)).finish();
                (0, 0)
            }
            Some(status) => {
                error_page(head, status, date, reply);
                (0, 0)
            }
            None => match range::resolve(request, &file.validators(), file.length) {
                // Only a single range is supported; otherwise the whole file is a valid answer.
                Ranged::Full | Ranged::Parts(_) => {
                    file.describe(head.head(Status::Ok, date, reply)).length(file.length).finish();
                    (0, file.length)
                }
                Ranged::Partial { start, end } => {
                    file.describe(head.head(Status::PartialContent, date, reply))
                        .part(start, end, file.length)
                        .finish();
                    (start, end)
                }
                Ranged::Unsatisfiable => {
                    let status = Status::RangeNotSatisfiable;
                    let fields = error_fields(status, Some(file.length));
                    head.head(status, date, reply).fields(fields.all()).page();
                    (0, 0)
                }
            },
        };
        let end = if reply.head_only { start } else { end };
        self.transmit(connection, file, start, end)
    }

    /// Sends the head and the file's bytes from `start` to `end`; the first block in one call with the head.
    fn transmit(
        &mut self,
        connection: &mut impl Connection,
        file: &File,
        mut start: u64,
        end: u64,
    ) -> io::Result<()> {
        loop {
            let length = (end - start).min(BLOCK as u64);
            let block = &mut self.block[..length as usize];
            file.read(block, start)?;
            write_both(connection, self.head.bytes(), block)?;
            self.head.clear();
            start += length;
            if start == end {
                return Ok(());
            }
        }
    }
}

/// Writes both, in one call if the socket accepts them.
fn write_both(
    connection: &mut impl Connection,
    mut head: &[u8],
    mut body: &[u8],
) -> io::Result<()> {
    while !(head.is_empty() && body.is_empty()) {
        match connection.write_vectored(&[IoSlice::new(head), IoSlice::new(body)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                let of_head = written.min(head.len());
                head = &head[of_head..];
                body = &body[written - of_head..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
