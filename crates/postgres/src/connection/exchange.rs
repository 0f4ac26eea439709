//! The exchange of one batch of queries: the messages to send, and the query of each answer.
//!
//! A batch is a sequence of *transactions*. Neighbours that are batchable are one transaction, all others are alone.
//! Each transaction ends with a Sync message, at which the server commits it and reports that it is ready. No query is
//! answered before.
//!
//! If the server reports an error, it has rolled the whole transaction back: the queries before, whose results are
//! thrown away, and those after, which it has skipped. The failing query is repeated alone, so that it does not depend
//! on its neighbours, and the others around it in transactions of their own. A query fails only when it is alone.
//!
//! If the connection ends, it is known of some queries that they were not committed: those in a transaction that was
//! rolled back, and, if the server says why it ends the connection, all that it has not executed. These are repeated.
//! All others fail, unless they are repeatable.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::BytesMut;
use postgres_protocol::message::frontend;

use super::inbox::Frame;
use super::prepared::{Prepared, error_of, unexpected};
use crate::database_error::DatabaseError;
use crate::error::{Error, Fault};
use crate::queue::{Answer, Pending};
use crate::rows::Rows;

/// A query that was sent so often gets a transaction of its own.
const MAX_SHARED_ATTEMPTS: u8 = 4;

/// A query is sent at most so often.
const MAX_ATTEMPTS: u8 = 8;

/// A batch in progress.
pub(super) struct Exchange {
    /// The queries that are not answered; the first `transaction` of them are the current transaction.
    pending: VecDeque<Pending>,
    transaction: usize,
    /// The results of the current transaction.
    results: Vec<Answer>,
    /// The error that has ended it, and the number of results before.
    error: Option<Arc<DatabaseError>>,
    /// The rows of the current query, and their number.
    rows: Vec<u8>,
    row_count: usize,
    is_too_large: bool,
    max_result_bytes: usize,
    /// Queries to repeat.
    repeat: Vec<Pending>,
}

/// The number of queries at the front that are one transaction.
fn transaction(pending: &VecDeque<Pending>) -> usize {
    let joining = pending.iter().take_while(|pending| pending.joins()).count();
    joining.max(1).min(pending.len())
}

impl Exchange {
    pub(super) fn new(mut pending: VecDeque<Pending>, max_result_bytes: usize) -> Self {
        pending.iter_mut().for_each(|pending| pending.attempts += 1);
        Self {
            transaction: transaction(&pending),
            pending,
            results: Vec::new(),
            error: None,
            rows: Vec::new(),
            row_count: 0,
            is_too_large: false,
            max_result_bytes,
            repeat: Vec::new(),
        }
    }

    /// Appends the messages of the batch.
    pub(super) fn encode(&self, message: &mut BytesMut) {
        let bytes = self.pending.iter().map(|pending| pending.query.message.len() + 5);
        message.reserve(bytes.sum());
        let mut rest = self.pending.iter().peekable();
        while let Some(pending) = rest.next() {
            message.extend_from_slice(&pending.query.message);
            if !(pending.joins() && rest.peek().is_some_and(|next| next.joins())) {
                frontend::sync(message);
            }
        }
    }

    /// Whether all transactions have ended.
    pub(super) fn is_over(&self) -> bool {
        self.pending.is_empty()
    }

    /// Handles the server's next message.
    pub(super) fn handle(
        &mut self,
        frame: Frame<'_>,
        prepared: &mut Prepared,
    ) -> Result<(), Fault> {
        let in_transaction = self.error.is_none() && self.results.len() < self.transaction;
        match frame.tag {
            // Bound; a statement closed.
            b'2' | b'3' => {}
            b'D' if in_transaction => self.add_row(frame),
            b'C' | b'I' if in_transaction => self.end_query(frame, prepared)?,
            b'E' if self.error.is_none() && !self.pending.is_empty() => {
                let error = error_of(frame)?;
                if error.is_stale_statement()
                    && let Some(failed) = self.pending.get(self.results.len())
                {
                    prepared.forget(&failed.query.statement);
                }
                self.error = Some(error);
            }
            b'Z' if !self.pending.is_empty() && !in_transaction => self.end_transaction(frame)?,
            _ => return Err(unexpected(frame)),
        }
        Ok(())
    }

    fn add_row(&mut self, frame: Frame<'_>) {
        self.row_count += 1;
        if self.rows.len() + frame.length > self.max_result_bytes {
            self.is_too_large = true;
            self.rows = Vec::new();
        }
        if !self.is_too_large {
            self.rows.extend_from_slice(frame.bytes);
        }
    }

    fn end_query(&mut self, frame: Frame<'_>, prepared: &Prepared) -> Result<(), Fault> {
        let (rows, len) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.row_count));
        let query = &self.pending[self.results.len()].query;
        let columns = prepared.columns(&query.statement).cloned();
        let columns = columns.ok_or_else(|| unexpected(frame))?;
        self.results.push(match std::mem::take(&mut self.is_too_large) {
            true => Err(Error::ResultTooLarge { max: self.max_result_bytes }),
            false => Ok(Rows::new(columns, rows, len, affected(frame.body()))),
        });
        Ok(())
    }

    /// Ends the current transaction: answers its queries if it is committed.
    fn end_transaction(&mut self, frame: Frame<'_>) -> Result<(), Fault> {
        let queries: Vec<_> = self.pending.drain(..self.transaction).collect();
        let results = std::mem::take(&mut self.results);
        self.transaction = transaction(&self.pending);
        if frame.body() != b"I" {
            // Only a statement that is alone can do that, such as a procedure.
            for Pending { query, reply, .. } in queries {
                let word = query.statement.word().to_owned();
                let why = "it leaves a transaction open";
                reply.send(Err(Error::Unsupported { word, why }));
            }
            return Err(Fault::Protocol("a statement has left a transaction open".to_owned()));
        }
        match self.error.take() {
            None => {
                let answered = queries.into_iter().zip(results);
                answered.for_each(|(query, result)| query.reply.send(result));
            }
            Some(error) => self.roll_back(queries, results.len(), &error),
        }
        Ok(())
    }

    /// Handles the error of the query numbered `failed`, or of the commit.
    fn roll_back(&mut self, queries: Vec<Pending>, failed: usize, error: &Arc<DatabaseError>) {
        let is_alone = queries.len() == 1;
        let fails_at_commit = failed == queries.len();
        for (index, mut pending) in queries.into_iter().enumerate() {
            let is_final =
                is_alone && !(error.is_stale_statement() && pending.attempts < MAX_SHARED_ATTEMPTS);
            if is_final {
                pending.reply.send(Err(Error::Database(error.clone())));
                continue;
            }
            pending.alone |=
                index == failed || fails_at_commit || pending.attempts >= MAX_SHARED_ATTEMPTS;
            self.repeat.push(pending);
        }
    }

    /// The queries to repeat, when the batch is over.
    pub(super) fn finish(self) -> Vec<Pending> {
        self.repeat
    }

    /// Ends the batch with the connection. Returns the queries to repeat.
    pub(super) fn abandon(mut self, fault: &Fault) -> Vec<Pending> {
        let what: Arc<str> = fault.to_string().into();
        let fatal = if let Fault::Fatal(error) = fault { Some(error) } else { None };
        let mut current: Vec<_> = self.pending.drain(..self.transaction).collect();
        let executed = self.results.len();
        match (self.error.take(), fatal) {
            (Some(error), _) => self.roll_back(current, executed, &error),
            (None, Some(fatal)) if executed < current.len() => {
                for (index, mut pending) in current.into_iter().enumerate() {
                    pending.alone = true;
                    let is_culprit = index == executed && !fatal.is_intervention();
                    if is_culprit || pending.attempts >= MAX_ATTEMPTS {
                        pending.reply.send(Err(Error::Database(fatal.clone())));
                    } else {
                        self.repeat.push(pending);
                    }
                }
            }
            (None, _) => {
                if matches!(fault, Fault::TimedOut(_)) {
                    // One of them takes too long. A query that does so alone would only do it again.
                    let attempts = if current.len() == 1 { MAX_ATTEMPTS } else { 0 };
                    for pending in &mut current {
                        pending.alone = true;
                        pending.attempts = pending.attempts.max(attempts);
                    }
                }
                self.lose(current, &what);
            }
        }
        let later: Vec<_> = self.pending.drain(..).collect();
        match fatal {
            // The server has not read them.
            Some(_) => self.repeat.extend(later),
            None => self.lose(later, &what),
        }
        self.repeat
    }

    /// Handles queries whose outcome is unknown.
    fn lose(&mut self, queries: Vec<Pending>, what: &Arc<str>) {
        for pending in queries {
            if pending.query.statement.is_repeatable() && pending.attempts < MAX_ATTEMPTS {
                self.repeat.push(pending);
            } else {
                pending.reply.send(Err(Error::Lost { what: what.clone() }));
            }
        }
    }
}

/// The number of rows in a command's tag, such as `INSERT 0 1`.
fn affected(body: &[u8]) -> u64 {
    let tag = body.strip_suffix(b"\0").unwrap_or(body);
    let word = tag.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    std::str::from_utf8(word).ok().and_then(|word| word.parse().ok()).unwrap_or(0)
}
