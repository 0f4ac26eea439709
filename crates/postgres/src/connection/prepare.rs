//! The preparation of the statements of a batch.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::BytesMut;
use phalanx::time::now;

use super::exchange::MAX_ATTEMPTS;
use super::link::Link;
use super::prepared::{PrepareResponses, Prepared};
use crate::error::{Error, Fault};
use crate::queue::Pending;
use crate::statement::Statement;

/// Prepares the statements of a batch that the connection does not know. Answers queries whose statement the server
/// rejects.
///
/// # Errors
/// How the connection has ended. All other queries are in the batch then, and were not sent.
pub(super) async fn prepare(
    link: &Link,
    prepared: &mut Prepared,
    batch: &mut VecDeque<Pending>,
    limit: Duration,
) -> Result<(), Fault> {
    let mut missing = prepared.missing(batch.iter().map(|pending| &pending.query.statement));
    let mut message = BytesMut::new();
    missing.retain(|statement| match statement.prepare(&mut message) {
        Ok(()) => true,
        Err(error) => {
            fail(take_queries(batch, statement), &error);
            false
        }
    });
    if missing.is_empty() {
        return Ok(());
    }
    let mut responses = PrepareResponses::default();
    let process = |link: &Link| {
        link.process(|frame| responses.handle(frame))?;
        Ok(responses.results.len() >= missing.len())
    };
    let result = link.exchange(message, limit, process).await;
    if let Err(fault) = &result
        && let Some(statement) = missing.get(responses.results.len())
    {
        record_failure(batch, statement, fault);
    }
    for (statement, result) in missing.iter().zip(responses.results) {
        match result {
            Ok(columns) => prepared.add(statement, columns),
            Err(error) => fail(take_queries(batch, statement), &Error::Database(error)),
        }
    }
    result
}

/// Takes some queries out of a batch.
fn take(batch: &mut VecDeque<Pending>, is_taken: impl Fn(&Pending) -> bool) -> Vec<Pending> {
    let (taken, rest): (Vec<_>, Vec<_>) = std::mem::take(batch).into_iter().partition(is_taken);
    *batch = rest.into();
    taken
}

/// Takes the queries of a statement out of a batch.
fn take_queries(batch: &mut VecDeque<Pending>, statement: &Statement) -> Vec<Pending> {
    take(batch, |pending| pending.query.statement.id() == statement.id())
}

fn fail(queries: Vec<Pending>, error: &Error) {
    queries.into_iter().for_each(|pending| pending.reply.send(Err(error.clone())));
}

/// Counts an attempt of the queries whose statement the server was preparing when the connection ended. Fails them if it
/// was the last, or if the server waits, such as for a lock on the table, so that the others of the batch do not wait
/// again.
fn record_failure(batch: &mut VecDeque<Pending>, statement: &Statement, fault: &Fault) {
    for pending in batch.iter_mut() {
        if pending.query.statement.id() == statement.id() {
            pending.attempts += 1;
            if matches!(fault, Fault::TimedOut(_)) {
                pending.attempts = MAX_ATTEMPTS;
            }
        }
    }
    for pending in take(batch, |pending| pending.attempts >= MAX_ATTEMPTS) {
        let (waited, reason) = (now() - pending.times.queued, fault.to_string().into());
        pending.reply.send(Err(Error::Unavailable { waited, reason }));
    }
}
