//! The queries of one processor that wait for a connection, bounded by their number and by their bytes.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::BytesMut;
use phalanx::task::Reply;

use crate::config::Config;
use crate::error::Error;
use crate::rows::Rows;
use crate::statement::Statement;

/// The answer to a query.
pub(crate) type Answer = Result<Rows, Error>;

/// An execution of a statement, encoded by its caller.
pub(crate) struct Query {
    pub(crate) statement: Statement,
    pub(crate) message: BytesMut,
}

/// When a query was queued.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) queued: Duration,
    /// The time until then in which its processor had no connection.
    pub(crate) offline: Duration,
}

/// A query that is not answered.
pub(crate) struct Pending {
    pub(crate) query: Query,
    pub(crate) reply: Reply<Answer>,
    pub(crate) times: Times,
    /// How often it was sent.
    pub(crate) attempts: u8,
    /// It gets a transaction of its own, because its shared transaction has failed.
    pub(crate) is_alone: bool,
}

impl Pending {
    /// Whether it may share a transaction.
    pub(crate) fn joins(&self) -> bool {
        !self.is_alone && self.query.statement.is_batchable()
    }
}

/// The queue of one processor.
#[derive(Default)]
pub(crate) struct Queue {
    items: VecDeque<Pending>,
    bytes: usize,
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Queues a query, or rejects it at a bound.
    pub(crate) fn push(&mut self, query: Query, reply: Reply<Answer>, times: Times, to: &Config) {
        let bytes = query.message.len();
        if bytes > to.max_queued_bytes {
            reply.send(Err(Error::TooLong { bytes, max: to.max_queued_bytes }));
        } else if self.items.len() >= to.max_queued || self.bytes + bytes > to.max_queued_bytes {
            reply.send(Err(Error::Busy { queries: self.items.len(), bytes: self.bytes }));
        } else {
            self.bytes += bytes;
            let (attempts, is_alone) = (0, false);
            self.items.push_back(Pending { query, reply, times, attempts, is_alone });
        }
    }

    /// Takes the queries of the next batch: all, up to `max`.
    pub(crate) fn take(&mut self, max: usize) -> VecDeque<Pending> {
        let rest = self.items.split_off(max.min(self.items.len()));
        let batch = std::mem::replace(&mut self.items, rest);
        self.bytes -= batch.iter().map(|pending| pending.query.message.len()).sum::<usize>();
        batch
    }

    /// Puts queries back before all others, in their order.
    pub(crate) fn requeue(&mut self, pending: Vec<Pending>) {
        for pending in pending.into_iter().rev() {
            self.bytes += pending.query.message.len();
            self.items.push_front(pending);
        }
    }

    /// The offline time of the oldest query.
    pub(crate) fn oldest(&self) -> Option<Duration> {
        self.items.iter().map(|pending| pending.times.offline).min()
    }

    /// Takes the queries that were queued at this offline time or before.
    pub(crate) fn take_older(&mut self, time: Duration) -> Vec<Pending> {
        let is_old = |pending: &Pending| pending.times.offline <= time;
        let (old, rest) = std::mem::take(&mut self.items).into_iter().partition(is_old);
        self.items = rest;
        let old: VecDeque<Pending> = old;
        self.bytes -= old.iter().map(|pending| pending.query.message.len()).sum::<usize>();
        old.into()
    }
}
