//! The statements that a connection has prepared, and the answers of the server while it prepares others.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;
use postgres_types::{Kind, Type};

use super::inbox::Frame;
use crate::database_error::DatabaseError;
use crate::error::Fault;
use crate::rows::Column;
use crate::statement::Statement;

/// Maximum number of prepared statements per connection. The least recently used ones are closed.
const MAX_PREPARED: usize = 512;

/// The prepared statements of a connection, with the columns of their results.
#[derive(Default)]
pub(super) struct Prepared {
    entries: HashMap<u64, Entry>,
    /// The number of the current batch.
    batch: u64,
    /// Messages that close statements, to send before the next batch. Their answers need no handling.
    closing: BytesMut,
}

struct Entry {
    columns: Arc<[Column]>,
    name: String,
    /// The last batch that has used it.
    used: u64,
}

impl Prepared {
    /// Begins a batch. Returns those of its statements that are not prepared.
    pub(super) fn missing<'s>(
        &mut self,
        statements: impl Iterator<Item = &'s Statement>,
    ) -> Vec<Statement> {
        self.batch += 1;
        let mut missing: Vec<Statement> = Vec::new();
        for statement in statements {
            match self.entries.get_mut(&statement.id()) {
                Some(entry) => entry.used = self.batch,
                None if missing.iter().any(|other| other.id() == statement.id()) => {}
                None => missing.push(statement.clone()),
            }
        }
        missing
    }

    /// The columns of a prepared statement.
    pub(super) fn columns(&self, statement: &Statement) -> Option<&Arc<[Column]>> {
        self.entries.get(&statement.id()).map(|entry| &entry.columns)
    }

    /// Adds a statement, and closes the least recently used one if there are too many.
    pub(super) fn add(&mut self, statement: &Statement, columns: Arc<[Column]>) {
        let entry = Entry { columns, name: statement.name(), used: self.batch };
        self.entries.insert(statement.id(), entry);
        if self.entries.len() <= MAX_PREPARED {
            return;
        }
        let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used);
        if let Some((&id, entry)) = oldest
            && entry.used < self.batch
        {
            // A name without zero bytes is valid.
            let _ = frontend::close(b'S', &entry.name, &mut self.closing);
            self.entries.remove(&id);
        }
    }

    /// Takes the messages that close statements.
    pub(super) fn take_closing(&mut self) -> BytesMut {
        std::mem::take(&mut self.closing)
    }

    /// Forgets a statement, which is prepared again at its next use.
    pub(super) fn remove(&mut self, statement: &Statement) {
        self.entries.remove(&statement.id());
    }
}

/// The answers to the messages that prepare statements, each in a transaction of its own.
#[derive(Default)]
pub(super) struct PrepareResponses {
    columns: Option<Arc<[Column]>>,
    error: Option<Arc<DatabaseError>>,
    /// For each statement its columns or its error.
    pub(super) results: Vec<Result<Arc<[Column]>, Arc<DatabaseError>>>,
}

impl PrepareResponses {
    /// Handles the server's next message.
    pub(super) fn handle(&mut self, frame: Frame<'_>) -> Result<(), Fault> {
        match frame.tag {
            // Closed, parsed, the types of the parameters, no columns.
            b'3' | b'1' | b't' | b'n' => {}
            b'T' => self.columns = Some(columns(frame)?),
            b'E' => self.error = Some(error_of(frame)?),
            b'Z' => {
                let columns = self.columns.take().unwrap_or_default();
                self.results.push(self.error.take().map_or(Ok(columns), Err));
            }
            _ => return Err(unexpected(frame)),
        }
        Ok(())
    }
}

/// The message of a frame.
pub(super) fn parse(frame: Frame<'_>) -> Result<Message, Fault> {
    let message = Message::parse(&mut BytesMut::from(frame.bytes))?;
    message.ok_or_else(|| unexpected(frame))
}

/// The error in a message of the server.
///
/// # Errors
/// The error itself, if the server has ended the connection with it.
pub(super) fn error_of(frame: Frame<'_>) -> Result<Arc<DatabaseError>, Fault> {
    let error = Arc::new(DatabaseError::new(frame.body()));
    if error.is_fatal() { Err(Fault::Fatal(error)) } else { Ok(error) }
}

pub(super) fn unexpected(frame: Frame<'_>) -> Fault {
    Fault::Protocol(format!("unexpected message {:?} of the server", frame.tag as char))
}

fn columns(frame: Frame<'_>) -> Result<Arc<[Column]>, Fault> {
    let Message::RowDescription(body) = parse(frame)? else { return Err(unexpected(frame)) };
    let column = |field: postgres_protocol::message::backend::Field<'_>| {
        let (name, oid) = (field.name().to_owned(), field.type_oid());
        let of = Type::from_oid(oid)
            .unwrap_or_else(|| Type::new(format!("type {oid}"), oid, Kind::Simple, String::new()));
        Ok(Column { name, of })
    };
    Ok(body.fields().map(column).collect::<Vec<_>>()?.into())
}
