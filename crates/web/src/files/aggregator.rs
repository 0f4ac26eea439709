//! The I/O aggregator merges adjacent reads of a cohort (2002 §3.6). It is a cohort operation: its handler
//! receives all reads of a cohort at once, and starts one disk operation for each run of adjacent reads.

use std::io;

use phalanx::SharedStage;
use phalanx::fs::File;
use phalanx::net::Bytes;
use phalanx::stage::Cohort;
use phalanx::task::Reply;

use crate::files::entry::FileId;
use crate::memory::Reservation;

/// Largest merged read, in bytes.
const MAX_RUN: usize = 1024 * 1024;

/// A request to read part of a file.
pub(crate) struct Read {
    pub(super) file: File,
    pub(super) id: FileId,
    pub(super) offset: u64,
    pub(super) length: usize,
    pub(super) reserved: Reservation,
}

/// Result of a read; shorter than requested only at the end of the file.
pub(crate) type Answer = io::Result<Bytes>;

/// Adjacent reads of one file, performed as one.
struct Run {
    file: File,
    id: FileId,
    offset: u64,
    length: usize,
    parts: Vec<Part>,
    reserved: Reservation,
}

struct Part {
    offset: u64,
    length: usize,
    reply: Reply<Answer>,
}

/// Handles a cohort: each run becomes one operation of the disk stage.
pub(crate) fn handle_cohort(disk: SharedStage<()>, cohort: &mut Cohort<Read, Answer>) {
    for run in merge(cohort) {
        // If the dispatch fails, the run's replies are dropped, and its callers get an error.
        let _ = disk.dispatch(move |_| run.read());
    }
}

/// Merges the cohort's reads into runs.
fn merge(cohort: &mut Cohort<Read, Answer>) -> Vec<Run> {
    cohort.sort_by_key(|entry| (entry.item.id, entry.item.offset));
    let mut runs: Vec<Run> = Vec::new();
    for (Read { file, id, offset, length, reserved }, reply) in cohort.drain() {
        let part = Part { offset, length, reply };
        match runs.last_mut() {
            Some(run) if run.id == id && run.can_merge(offset, length) => {
                let end = (offset + length as u64).max(run.end());
                run.length = (end - run.offset) as usize;
                run.reserved.resize(run.length);
                run.parts.push(part);
            }
            _ => runs.push(Run { file, id, offset, length, parts: vec![part], reserved }),
        }
    }
    runs
}

impl Run {
    fn end(&self) -> u64 {
        self.offset + self.length as u64
    }

    /// Whether a read can be merged into this run: it is adjacent, and the result is not too large. The read must start
    /// at or after the start of the run.
    fn can_merge(&self, offset: u64, length: usize) -> bool {
        offset <= self.end() && offset + length as u64 - self.offset <= MAX_RUN as u64
    }

    /// Performs the read and sends each caller its part.
    async fn read(self) {
        let read = self.file.read_at(self.offset, self.length).await;
        self.deliver(read);
    }

    /// Sends each caller its part. The whole run counts as memory in use until the last part is dropped.
    fn deliver(self, read: io::Result<Vec<u8>>) {
        let read = read.map(|bytes| self.reserved.hold(bytes));
        for Part { offset, length, reply } in self.parts {
            reply.send(match &read {
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
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    use phalanx::fs::Dir;
    use phalanx::stage::CohortStage;
    use phalanx::{CallError, Graph, Runtime, join};

    use super::*;
    use crate::memory::Budget;

    /// Offset and length.
    type Extent = (u64, usize);
    type Gather = CohortStage<Read, Answer>;
    /// Handles a run instead of the disk stage.
    type RunHandler = fn(Run);
    type Merged = Arc<Mutex<(Option<RunHandler>, Vec<Extent>)>>;

    /// Requests reads in one cohort. Returns the merged reads and the results.
    async fn request_reads(
        gather: Gather,
        merged: &Merged,
        then: RunHandler,
        file: &File,
        requests: &[(u64, Extent)],
    ) -> (Vec<Extent>, Vec<Result<Answer, CallError>>) {
        *merged.lock().unwrap() = (Some(then), Vec::new());
        let calls: Vec<_> = requests
            .iter()
            .map(|(id, (offset, length))| {
                let (id, offset, length) = (FileId::of_length(*id), *offset, *length);
                let reserved = Budget::new(0).reserve(length);
                gather.call(Read { file: file.clone(), id, offset, length, reserved })
            })
            .collect();
        let answers = join(calls).await;
        (std::mem::take(&mut merged.lock().unwrap().1), answers)
    }

    /// Reads of two files in random order.
    async fn check_merging(gather: Gather, merged: &Merged, file: &File) {
        const HALF: usize = MAX_RUN / 2;
        let half = HALF as u64;
        // (file, its reads, the merged read)
        let runs: &[(u64, &[Extent], Extent)] = &[
            (1, &[(0, 100), (100, 50), (120, 200)], (0, 320)),
            (1, &[(321, 10)], (321, 10)),
            (1, &[(5000, 9), (5000, 9), (5003, 2)], (5000, 9)),
            // The largest merged read, and one that is too large to merge.
            (2, &[(0, HALF), (half, HALF)], (0, MAX_RUN)),
            (2, &[(2 * half, 1)], (2 * half, 1)),
        ];
        let mut requests: Vec<(u64, Extent)> = Vec::new();
        runs.iter().for_each(|run| requests.extend(run.1.iter().map(|at| (run.0, *at))));
        requests.rotate_left(3);
        requests.reverse();
        // The value of each byte depends on its offset.
        fn bytes(from: u64, length: usize) -> impl Iterator<Item = u8> {
            (from..from + length as u64).map(|at| (at % 251) as u8)
        }
        let then: RunHandler = |run| {
            let read = bytes(run.offset, run.length).collect();
            run.deliver(Ok(read));
        };
        let (found, answers) = request_reads(gather, merged, then, file, &requests).await;
        assert_eq!(found, runs.iter().map(|run| run.2).collect::<Vec<_>>());
        for ((_, (offset, length)), answer) in requests.into_iter().zip(answers) {
            let answer = answer.unwrap().unwrap();
            assert!(answer.iter().copied().eq(bytes(offset, length)), "{length} at {offset}");
        }
    }

    /// A truncated file, a failing read, and a run whose callers have gone.
    async fn check_short_reads(gather: Gather, merged: &Merged, file: &File) {
        let requests = [(1, (0, 10)), (1, (10, 10)), (1, (20, 10))];
        let (_, answers) =
            request_reads(gather, merged, |run| run.deliver(Ok(vec![7; 14])), file, &requests)
                .await;
        for (answer, length) in answers.into_iter().zip([10, 4, 0]) {
            assert_eq!(answer.unwrap().unwrap().len(), length);
        }
        let fails: RunHandler = |run| run.deliver(Err(io::Error::from_raw_os_error(5)));
        let (_, answers) = request_reads(gather, merged, fails, file, &requests).await;
        for answer in answers {
            assert_eq!(answer.unwrap().unwrap_err().raw_os_error(), Some(5));
        }
        let (_, answers) = request_reads(gather, merged, drop, file, &requests).await;
        for answer in answers {
            let unanswered = matches!(answer, Err(CallError::ReplyDropped { .. }));
            assert!(unanswered, "the caller gets an error");
        }
    }

    /// Runs as a program, because only an operation can open a file or call a stage.
    #[test]
    fn adjacent_reads_are_merged() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("file"), "").unwrap();
        let merged = Merged::default();
        let mut graph = Graph::new();
        let stage = graph.shared("test", Dir::open(root.path()).unwrap());
        let recorder = merged.clone();
        let gather = graph.stage("gather").cohort(
            |_| (),
            move |_, cohort: &mut Cohort<Read, Answer>| {
                let runs = merge(cohort);
                let (then, found) = &mut *recorder.lock().unwrap();
                found.extend(runs.iter().map(|run| (run.offset, run.length)));
                runs.into_iter().for_each(then.unwrap());
            },
        );
        let done = Arc::new(AtomicBool::new(false));
        let (set, runtime) = (done.clone(), Runtime::new().processors(1).signals(false));
        let ran = runtime.run(graph, move |start| {
            let (control, set, merged) = (start.control(), set.clone(), merged.clone());
            stage.dispatch(move |_| async move {
                let call = stage.call(move |dir| async move {
                    let file = dir.open_file(b"file", false).await.unwrap();
                    check_merging(gather, &merged, &file).await;
                    check_short_reads(gather, &merged, &file).await;
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
