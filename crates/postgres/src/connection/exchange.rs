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
//! The results of a transaction are held until it is committed, and their sum is bounded. A result without space is
//! dropped. Its query was executed: if it is idempotent, it is repeated alone, and otherwise it fails.
//!
//! If the connection ends, some queries are known to have had no effect: those in a transaction that the server has
//! rolled back, and, if an operator has ended the server process, all that it has not executed. These are repeated. All
//! others fail, unless they are idempotent.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::BytesMut;
use postgres_protocol::message::frontend;

use super::inbox::Frame;
use super::prepared::{Prepared, error_of, unexpected};
use super::result::{ResultBounds, ResultInProgress};
use crate::database_error::DatabaseError;
use crate::error::{Error, Fault};
use crate::queue::{Answer, Pending};

/// A query that was sent so often gets a transaction of its own.
const MAX_SHARED_ATTEMPTS: u8 = 4;

/// A query is sent at most so often.
pub(super) const MAX_ATTEMPTS: u8 = 8;

/// A batch in progress.
pub(super) struct Exchange {
    /// The queries that are not answered; the first `transaction` of them are the current transaction.
    pending: VecDeque<Pending>,
    transaction: usize,
    /// The results of the current transaction.
    results: Vec<Answer>,
    /// The bytes of these results.
    retained_bytes: usize,
    /// The error that has ended it.
    error: Option<Failure>,
    /// That of the current query.
    current: ResultInProgress,
    bounds: ResultBounds,
    /// Queries to repeat.
    repeat: Vec<Pending>,
    /// The server did not know a statement, or its plan was out of date.
    is_stale: bool,
}

/// The error of a query, or of the commit.
struct Failure {
    error: Arc<DatabaseError>,
    /// The server could not bind the statement, which it did not know, or whose plan was out of date.
    is_stale: bool,
}

/// The number of queries at the front that are one transaction.
fn transaction(pending: &VecDeque<Pending>) -> usize {
    let joining = pending.iter().take_while(|pending| pending.joins()).count();
    joining.max(1).min(pending.len())
}

impl Exchange {
    pub(super) fn new(mut pending: VecDeque<Pending>, bounds: ResultBounds) -> Self {
        pending.iter_mut().for_each(|pending| pending.attempts += 1);
        Self {
            transaction: transaction(&pending),
            pending,
            results: Vec::new(),
            retained_bytes: 0,
            error: None,
            current: ResultInProgress::default(),
            bounds,
            repeat: Vec::new(),
            is_stale: false,
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
    pub(super) fn handle(&mut self, frame: Frame<'_>, prepared: &Prepared) -> Result<(), Fault> {
        let in_transaction = self.error.is_none() && self.results.len() < self.transaction;
        match frame.tag {
            b'E' => {
                // The server may end the connection at any time, also behind an error of the transaction.
                let error = error_of(frame)?;
                if self.error.is_some() || self.pending.is_empty() {
                    return Err(unexpected(frame));
                }
                // Its rows do not belong to the next query.
                let current = std::mem::take(&mut self.current);
                let is_stale = !current.has_started && error.is_stale_statement();
                self.is_stale |= is_stale;
                self.error = Some(Failure { error, is_stale });
            }
            // Bound.
            b'2' => self.current.has_started = true,
            // A statement closed.
            b'3' => {}
            b'D' if in_transaction => {
                let retained_bytes = (self.transaction > 1).then_some(self.retained_bytes);
                self.current.add_row(frame, retained_bytes, self.bounds);
            }
            b'C' | b'I' if in_transaction => self.end_query(frame, prepared)?,
            b'Z' if !self.pending.is_empty() && !in_transaction => self.end_transaction(frame)?,
            _ => return Err(unexpected(frame)),
        }
        Ok(())
    }

    fn end_query(&mut self, frame: Frame<'_>, prepared: &Prepared) -> Result<(), Fault> {
        let query = &self.pending[self.results.len()].query;
        let columns = prepared.columns(&query.statement).cloned();
        let columns = columns.ok_or_else(|| unexpected(frame))?;
        let current = std::mem::take(&mut self.current);
        self.retained_bytes += current.bytes();
        self.results.push(current.end(columns, frame.body()));
        Ok(())
    }

    /// Ends the current transaction: answers its queries if it is committed.
    fn end_transaction(&mut self, frame: Frame<'_>) -> Result<(), Fault> {
        let queries: Vec<_> = self.pending.drain(..self.transaction).collect();
        let results = std::mem::take(&mut self.results);
        self.retained_bytes = 0;
        self.transaction = transaction(&self.pending);
        if frame.body() != b"I" {
            // Only a statement that is alone can do that, such as a procedure.
            for Pending { query, reply, .. } in queries {
                let word = query.statement.word().to_owned();
                let reason = "it leaves a transaction open";
                reply.send(Err(Error::Unsupported { word, reason }));
            }
            return Err(Fault::Protocol("a statement has left a transaction open".to_owned()));
        }
        match self.error.take() {
            None => {
                for (mut pending, result) in queries.into_iter().zip(results) {
                    let has_no_space = matches!(result, Err(Error::NoSpaceForResult { .. }));
                    if has_no_space && pending.query.statement.is_idempotent() {
                        pending.is_alone = true;
                        self.repeat.push(pending);
                    } else {
                        pending.reply.send(result);
                    }
                }
            }
            Some(error) => self.roll_back(queries, results.len(), &error),
        }
        Ok(())
    }

    /// Handles the error of the query numbered `failed`, or of the commit.
    fn roll_back(&mut self, queries: Vec<Pending>, failed: usize, failure: &Failure) {
        let Failure { error, is_stale } = failure;
        let is_alone = queries.len() == 1;
        let fails_at_commit = failed == queries.len();
        for (index, mut pending) in queries.into_iter().enumerate() {
            let is_final = is_alone && !(*is_stale && pending.attempts < MAX_ATTEMPTS);
            if is_final {
                pending.reply.send(Err(Error::Database(error.clone())));
                continue;
            }
            pending.is_alone |=
                index == failed || fails_at_commit || pending.attempts >= MAX_SHARED_ATTEMPTS;
            self.repeat.push(pending);
        }
    }

    /// The queries to repeat, when the batch is over. If a statement was stale, the others probably are, too, so all of
    /// them are prepared again.
    pub(super) fn finish(self, prepared: &mut Prepared) -> Vec<Pending> {
        if self.is_stale {
            self.repeat.iter().for_each(|pending| prepared.remove(&pending.query.statement));
        }
        self.repeat
    }

    /// Ends the batch with the connection. Returns the queries to repeat.
    pub(super) fn abandon(mut self, fault: &Fault) -> Vec<Pending> {
        let reason: Arc<str> = fault.to_string().into();
        // A server process that an operator ends reports that behind all of its answers, so it has not executed the rest.
        // Other errors may be those of a pooler, which does not know what its server has committed.
        let intervention = match fault {
            Fault::Fatal(error) if error.is_intervention() => Some(error),
            _ => None,
        };
        let mut current: Vec<_> = self.pending.drain(..self.transaction).collect();
        let executed = self.results.len();
        match (self.error.take(), intervention) {
            (Some(error), _) => self.roll_back(current, executed, &error),
            (None, Some(error)) if executed < current.len() => self.undo(current, error, &reason),
            (None, _) => {
                // One of them takes too long. A query that does so alone would only do it again.
                let is_given_up = matches!(fault, Fault::TimedOut(_)) && current.len() == 1;
                for pending in &mut current {
                    pending.is_alone = true;
                    pending.attempts = if is_given_up { MAX_ATTEMPTS } else { pending.attempts };
                }
                self.fail(current, &reason);
            }
        }
        let mut later: Vec<_> = self.pending.drain(..).collect();
        // They have not ended the connection, so this attempt does not count.
        later.iter_mut().for_each(|pending| pending.attempts -= 1);
        match intervention {
            Some(_) => self.repeat.extend(later),
            None => self.fail(later, &reason),
        }
        self.repeat
    }

    /// Handles the queries of a transaction that an intervention has rolled back.
    fn undo(&mut self, queries: Vec<Pending>, error: &Arc<DatabaseError>, reason: &Arc<str>) {
        for mut pending in queries {
            let statement = &pending.query.statement;
            // Such as a procedure that commits, or an index that is created concurrently.
            let may_have_effects =
                self.current.has_started && !statement.is_batchable() && !statement.is_idempotent();
            if may_have_effects {
                pending.reply.send(Err(Error::ConnectionLost { reason: reason.clone() }));
            } else if pending.attempts >= MAX_ATTEMPTS {
                pending.reply.send(Err(Error::Database(error.clone())));
            } else {
                pending.is_alone = true;
                self.repeat.push(pending);
            }
        }
    }

    /// Handles queries whose outcome is unknown.
    fn fail(&mut self, queries: Vec<Pending>, reason: &Arc<str>) {
        for pending in queries {
            if pending.query.statement.is_idempotent() && pending.attempts < MAX_ATTEMPTS {
                self.repeat.push(pending);
            } else {
                pending.reply.send(Err(Error::ConnectionLost { reason: reason.clone() }));
            }
        }
    }
}
