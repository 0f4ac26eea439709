//! The result of the query that the server executes.

use std::sync::Arc;

use super::inbox::Frame;
use crate::config::Config;
use crate::error::Error;
use crate::queue::Answer;
use crate::rows::{Column, Rows};

/// The result of the query that the server executes.
#[derive(Default)]
pub(super) struct ResultInProgress {
    /// The server has bound its parameters, and may have begun to execute it.
    pub(super) has_started: bool,
    rows: Vec<u8>,
    count: usize,
    /// Why its rows were dropped.
    dropped: Option<Error>,
}

/// The bounds of results, in bytes.
#[derive(Clone, Copy)]
pub(super) struct ResultBounds {
    /// Of one result.
    pub(super) one: usize,
    /// Of all results of a transaction that several queries share.
    pub(super) shared: usize,
}

impl ResultBounds {
    pub(super) fn of(config: &Config) -> Self {
        Self { one: config.max_result_bytes, shared: config.max_shared_result_bytes }
    }
}

impl ResultInProgress {
    /// Adds a row, or drops all of them at a bound. `other_bytes` is the size of the other results of the transaction;
    /// `None` if the query is alone in it.
    pub(super) fn add_row(
        &mut self,
        frame: Frame<'_>,
        other_bytes: Option<usize>,
        bounds: ResultBounds,
    ) {
        self.count += 1;
        if self.dropped.is_some() {
            return;
        }
        let bytes = self.rows.len() + frame.length;
        if bytes > bounds.one {
            self.dropped = Some(Error::ResultTooLarge { max: bounds.one });
        } else if other_bytes.is_some_and(|other_bytes| other_bytes + bytes > bounds.shared) {
            self.dropped = Some(Error::NoSpaceForResult { max: bounds.shared });
        } else {
            self.rows.extend_from_slice(frame.bytes);
            return;
        }
        self.rows = Vec::new();
    }

    /// The number of bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.rows.len()
    }

    /// The answer, at the end of the command with this tag.
    pub(super) fn end(self, columns: Arc<[Column]>, tag: &[u8]) -> Answer {
        match self.dropped {
            Some(error) => Err(error),
            None => Ok(Rows::new(columns, self.rows, self.count, affected(tag))),
        }
    }
}

/// The number of rows in a command's tag, such as `INSERT 0 1`.
fn affected(body: &[u8]) -> u64 {
    let tag = body.strip_suffix(b"\0").unwrap_or(body);
    let word = tag.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    std::str::from_utf8(word).ok().and_then(|word| word.parse().ok()).unwrap_or(0)
}
