//! The I/O aggregator: adjacent reads of one cohort become one (2002 §3.6).
//!
//! A read is noted here; the first of a cohort also asks the disk stage to come for what was noted.
//! The disk stage runs after the cohort has ended, so it finds all of the cohort's reads.

use std::io;

use phalanx::fs::File;
use phalanx::{Bytes, Trigger, event};

use crate::disk;
use crate::entry::FileId;
use crate::stages::{Site, Stages};

/// A merged read is at most this long.
const MAX_RUN: usize = 1024 * 1024;

/// The reads that one cohort has asked for.
#[derive(Default)]
pub(crate) struct Aggregator {
    noted: Vec<Noted>,
}

struct Noted {
    file: File,
    id: FileId,
    offset: u64,
    length: usize,
    reply: Trigger<io::Result<Bytes>>,
}

/// Adjacent reads of one file.
pub(crate) struct Run {
    pub(crate) file: File,
    pub(crate) offset: u64,
    pub(crate) length: usize,
    parts: Vec<Part>,
}

struct Part {
    offset: u64,
    length: usize,
    reply: Trigger<io::Result<Bytes>>,
}

/// Reads `length` bytes of `file` at `offset`; fewer only at the file's end.
///
/// # Errors
/// As [`File::read_at`].
pub(crate) async fn read(
    stages: Stages,
    site: &Site,
    file: &File,
    id: FileId,
    offset: u64,
    length: usize,
) -> io::Result<Bytes> {
    let file = file.clone();
    let call = stages.aggregator.call(site.block_key(id, 0), move |aggregator| async move {
        let (reply, answer) = event();
        let first = aggregator.with(|aggregator| {
            aggregator.noted.push(Noted { file, id, offset, length, reply });
            aggregator.noted.len() == 1
        });
        if first && disk::read_gathered(stages, aggregator.clone()).is_err() {
            aggregator.with(|aggregator| aggregator.noted.clear());
        }
        answer.await.unwrap_or_else(|| Err(io::ErrorKind::OutOfMemory.into()))
    });
    call.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

impl Aggregator {
    /// Takes what was noted, adjacent reads merged.
    pub(crate) fn take_runs(&mut self) -> Vec<Run> {
        let mut noted = std::mem::take(&mut self.noted);
        noted.sort_by_key(|noted| (noted.id, noted.offset));
        let mut runs: Vec<(FileId, Run)> = Vec::new();
        for Noted { file, id, offset, length, reply } in noted {
            let part = Part { offset, length, reply };
            match runs.last_mut() {
                Some((same, run)) if *same == id && run.takes(offset, length) => {
                    let end = (offset + length as u64).max(run.end());
                    run.length = (end - run.offset) as usize;
                    run.parts.push(part);
                }
                _ => runs.push((id, Run { file, offset, length, parts: vec![part] })),
            }
        }
        runs.into_iter().map(|(_, run)| run).collect()
    }
}

impl Run {
    fn end(&self) -> u64 {
        self.offset + self.length as u64
    }

    /// Whether a read at or after this run's start touches it and fits into one with it.
    fn takes(&self, offset: u64, length: usize) -> bool {
        offset <= self.end() && offset + length as u64 - self.offset <= MAX_RUN as u64
    }

    /// Gives each asker its part.
    pub(crate) fn deliver(self, read: io::Result<Vec<u8>>) {
        let read = read.map(Bytes::from);
        for Part { offset, length, reply } in self.parts {
            reply.fire(match &read {
                Ok(bytes) => {
                    let start = ((offset - self.offset) as usize).min(bytes.len());
                    Ok(bytes.slice(start..(start + length).min(bytes.len())))
                }
                Err(error) => Err(copy(error)),
            });
        }
    }
}

fn copy(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => error.kind().into(),
    }
}
