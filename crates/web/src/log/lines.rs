//! The log stage: formats the lines of a cohort into a buffer for each log, which a thread writes to the file.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::blocking::BlockingStage;
use phalanx::shutdown::draining;
use phalanx::stage::{Cohort, CohortStage};
use phalanx::time::{now, time_of_day};
use phalanx::{SharedStage, select, sleep};
use phalanx_http::LogTime;

use crate::log::outputs::Output;
use crate::log::records::LogRecords;

pub(crate) type LogStage = CohortStage<Box<LogRecords>, ()>;

/// Time between writes, so that the thread is woken at most a hundred times per second.
const FLUSH_INTERVAL: Duration = Duration::from_millis(10);
/// Buffered bytes per processor while a file is slow; further lines are dropped.
const MAX_BUFFERED_BYTES: usize = 4 << 20;
/// Capacity of the buffer kept for later lines, in bytes.
const MAX_SPARE_BYTES: usize = 256 * 1024;

/// Log buffers of one processor.
pub(crate) struct Lines {
    file: BlockingStage<()>,
    flush: SharedStage<()>,
    /// Logs with lines that are not written yet.
    pending: RefCell<Vec<Pending>>,
    /// Bytes of lines that are being written.
    in_flight: Cell<usize>,
    spare_buffer: RefCell<Vec<u8>>,
    time: RefCell<LogTime>,
    /// Whether an operation is writing the buffers.
    is_writing: Cell<bool>,
}

/// Lines of a log.
struct Pending {
    output: Arc<Output>,
    buffer: Vec<u8>,
    /// Lines dropped since the last write.
    dropped: u64,
}

impl Lines {
    pub(super) fn new(file: BlockingStage<()>, flush: SharedStage<()>) -> Rc<Self> {
        Rc::new(Self {
            file,
            flush,
            pending: RefCell::default(),
            in_flight: Cell::default(),
            spare_buffer: RefCell::default(),
            time: RefCell::default(),
            is_writing: Cell::new(false),
        })
    }

    /// Formats the lines of these records.
    fn add(&self, records: &LogRecords, day: Duration) {
        let (pending, time) = (&mut *self.pending.borrow_mut(), &mut *self.time.borrow_mut());
        let mut buffered = self.in_flight.get() + length(pending);
        records.for_each(day, |output, access| {
            let own = pending.iter().position(|log| Arc::ptr_eq(&log.output, output));
            let own = own.unwrap_or_else(|| {
                let (output, buffer) = (output.clone(), self.spare_buffer.take());
                pending.push(Pending { output, buffer, dropped: 0 });
                pending.len() - 1
            });
            let log = &mut pending[own];
            if buffered >= MAX_BUFFERED_BYTES {
                log.dropped += 1;
                return;
            }
            let before = log.buffer.len();
            access.write(&log.output.format, time, &mut log.buffer);
            buffered += log.buffer.len() - before;
        });
    }
}

/// Bytes of the lines of all logs.
fn length(logs: &[Pending]) -> usize {
    logs.iter().map(|log| log.buffer.len()).sum()
}

/// Handler of the stage's cohort operation.
pub(super) fn handle(lines: &mut Rc<Lines>, cohort: &mut Cohort<Box<LogRecords>, ()>) {
    let day = time_of_day().saturating_sub(now());
    for (records, reply) in cohort.drain() {
        lines.add(&records, day);
        records.recycle();
        reply.send(());
    }
    if !lines.is_writing.replace(true) {
        let writer = lines.clone();
        if lines.flush.dispatch(move |_| write_all(writer)).is_err() {
            // The operation limit is reached. The next cohort tries again.
            lines.is_writing.set(false);
        }
    }
}

/// Writes the buffers until they stay empty.
async fn write_all(lines: Rc<Lines>) {
    let _writing = ResetGuard(&lines.is_writing);
    while !lines.pending.borrow().is_empty() {
        // Do not wait during shutdown.
        select(draining(), sleep(FLUSH_INTERVAL)).await;
        let logs = lines.pending.take();
        lines.in_flight.set(length(&logs));
        let _in_flight = ResetGuard(&lines.in_flight);
        for Pending { output, buffer, dropped } in logs {
            let count = buffer.iter().filter(|byte| **byte == b'\n').count() as u64;
            let written = output.clone();
            let call = lines.file.call(move |()| {
                written.sink.append(&buffer, dropped);
                buffer
            });
            match call.await {
                Ok(mut buffer) => {
                    buffer.clear();
                    if buffer.capacity() <= MAX_SPARE_BYTES {
                        lines.spare_buffer.replace(buffer);
                    }
                }
                Err(_) => output.sink.count_lost(dropped + count),
            }
        }
    }
}

/// Resets a value when the operation ends or is dropped.
struct ResetGuard<'a, T: Default>(&'a Cell<T>);

impl<T: Default> Drop for ResetGuard<'_, T> {
    fn drop(&mut self) {
        self.0.set(T::default());
    }
}

#[cfg(test)]
mod tests {
    use phalanx::Graph;
    use phalanx::blocking::blocking;

    use super::*;
    use crate::config::{AccessLog, Config};
    use crate::log::outputs::Logs;

    /// Lines that a slow file has not accepted yet count towards the limit.
    #[test]
    fn lines_that_are_being_written_are_buffered() {
        let mut graph = Graph::new();
        let file = blocking(&mut graph, "log file").threads(1).state(());
        let lines = Lines::new(file, graph.shared("flush", ()));
        let config = Config { access_log: Some(AccessLog::default()), ..Config::new() };
        let logs = Logs::open(&config, None).unwrap();
        let mut records = LogRecords::pooled(&logs);
        let address = std::net::Ipv4Addr::LOCALHOST.into();
        records.push(0, address, Duration::ZERO, &[b"GET / HTTP/1.1"], [b"", b"", b""]);
        records.set_response(200, 0);
        lines.in_flight.set(MAX_BUFFERED_BYTES);
        let in_flight = ResetGuard(&lines.in_flight);
        lines.add(&records, Duration::ZERO);
        drop(in_flight);
        lines.add(&records, Duration::ZERO);
        let pending = lines.pending.take();
        assert_eq!((pending[0].dropped, pending[0].buffer.is_empty()), (1, false));
    }
}
