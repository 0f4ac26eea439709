//! The I/O aggregator: adjacent reads of one cohort become one (2002 §3.6).
//!
//! A read is noted here; the first of a cohort also asks the disk stage to come for what was noted.
//! The disk stage runs after the cohort has ended, so it finds all of the cohort's reads.

use std::io;

use phalanx::fs::File;
use phalanx::{Bytes, Trigger, event};

use crate::files::disk;
use crate::files::entry::FileId;
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use phalanx::fs::Dir;
    use phalanx::{Event, Graph, Runtime};

    use super::*;

    /// Offset and length.
    type At = (u64, usize);

    fn note(to: &mut Aggregator, file: &File, id: u64, at: At) -> Event<io::Result<Bytes>> {
        let (reply, answer) = event();
        let (file, id) = (file.clone(), FileId::of_length(id));
        to.noted.push(Noted { file, id, offset: at.0, length: at.1, reply });
        answer
    }

    /// Reads of two files in no order; what they are merged to, and what each gets of it.
    async fn merges(file: File) {
        const HALF: usize = MAX_RUN / 2;
        let half = HALF as u64;
        // (file, its reads, the one that they become)
        let runs: &[(u64, &[At], At)] = &[
            (1, &[(0, 100), (100, 50), (120, 200)], (0, 320)),
            (1, &[(321, 10)], (321, 10)),
            (1, &[(5000, 9), (5000, 9), (5003, 2)], (5000, 9)),
            // As much as one read may be, and then another.
            (2, &[(0, HALF), (half, HALF)], (0, MAX_RUN)),
            (2, &[(2 * half, 1)], (2 * half, 1)),
        ];
        let mut asked: Vec<(u64, At)> = Vec::new();
        runs.iter().for_each(|run| asked.extend(run.1.iter().map(|at| (run.0, *at))));
        asked.rotate_left(3);
        asked.reverse();
        let mut aggregator = Aggregator::default();
        let noted = asked.iter().map(|(id, at)| note(&mut aggregator, &file, *id, *at));
        let answers: Vec<_> = noted.collect();
        let merged = aggregator.take_runs();
        let found: Vec<_> = merged.iter().map(|run| (run.offset, run.length)).collect();
        assert_eq!(found, runs.iter().map(|run| run.2).collect::<Vec<_>>());
        assert!(aggregator.take_runs().is_empty(), "taken once");
        // Each byte tells where it lies.
        let bytes = |from: u64, length| (from..from + length as u64).map(|at| (at % 251) as u8);
        for run in merged {
            let read = bytes(run.offset, run.length).collect();
            run.deliver(Ok(read));
        }
        for ((_, (offset, length)), answer) in asked.into_iter().zip(answers) {
            let answer = answer.await.unwrap().unwrap();
            assert!(answer.iter().copied().eq(bytes(offset, length)), "{length} at {offset}");
        }
    }

    /// A file that has become shorter, one that cannot be read, and one that nobody reads.
    async fn falls_short(file: File) {
        let asked = || {
            let mut aggregator = Aggregator::default();
            let answers =
                [(0, 10), (10, 10), (20, 10)].map(|at| note(&mut aggregator, &file, 1, at));
            (answers, aggregator.take_runs().remove(0))
        };
        let (answers, run) = asked();
        run.deliver(Ok(vec![7; 14]));
        for (answer, length) in answers.into_iter().zip([10, 4, 0]) {
            assert_eq!(answer.await.unwrap().unwrap().len(), length);
        }
        let (answers, run) = asked();
        run.deliver(Err(io::Error::from_raw_os_error(5)));
        for answer in answers {
            assert_eq!(answer.await.unwrap().unwrap_err().raw_os_error(), Some(5));
        }
        let (answers, run) = asked();
        drop(run);
        for answer in answers {
            assert!(answer.await.is_none(), "whoever waits hears of it");
        }
    }

    /// Within a program: only an operation can open the file that reads are noted of.
    #[test]
    fn adjacent_reads_become_one() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("file"), "").unwrap();
        let mut graph = Graph::new();
        let stage = graph.shared("test", Dir::open(root.path()).unwrap());
        let done = Arc::new(AtomicBool::new(false));
        let (set, runtime) = (done.clone(), Runtime::new().processors(1).pin(false).signals(false));
        let ran = runtime.run(graph, move |start| {
            let (control, set) = (start.control(), set.clone());
            stage.dispatch(move |_| async move {
                let call = stage.call(|dir| async move {
                    let file = dir.open_file(b"file", false).await.unwrap();
                    merges(file.clone()).await;
                    falls_short(file).await;
                });
                set.store(call.await.is_ok(), Ordering::Relaxed);
                control.end();
            })?;
            Ok(())
        });
        ran.unwrap();
        assert!(done.load(Ordering::Relaxed), "its panic is above");
    }
}
