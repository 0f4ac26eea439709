//! The result of the query that the server executes.

use std::sync::Arc;

use super::inbox::Frame;
use crate::error::Error;
use crate::queue::Answer;
use crate::rows::{Column, Rows};

/// The result of the query that the server executes.
#[derive(Default)]
pub(super) struct ResultInProgress {
    /// The server has bound its parameters, and may have begun to execute it.
    pub(super) has_begun: bool,
    rows: Vec<u8>,
    count: usize,
    is_too_large: bool,
}

impl ResultInProgress {
    /// Adds a row, or drops all of them if they have more than `max` bytes.
    pub(super) fn add_row(&mut self, frame: Frame<'_>, max: usize) {
        self.count += 1;
        if self.rows.len() + frame.length > max {
            self.is_too_large = true;
            self.rows = Vec::new();
        }
        if !self.is_too_large {
            self.rows.extend_from_slice(frame.bytes);
        }
    }

    /// The answer, at the end of the command with this tag.
    pub(super) fn end(self, columns: Arc<[Column]>, tag: &[u8], max: usize) -> Answer {
        match self.is_too_large {
            true => Err(Error::ResultTooLarge { max }),
            false => Ok(Rows::new(columns, self.rows, self.count, affected(tag))),
        }
    }
}

/// The number of rows in a command's tag, such as `INSERT 0 1`.
fn affected(body: &[u8]) -> u64 {
    let tag = body.strip_suffix(b"\0").unwrap_or(body);
    let word = tag.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    std::str::from_utf8(word).ok().and_then(|word| word.parse().ok()).unwrap_or(0)
}
