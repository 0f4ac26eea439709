//! The log stage: formats the lines of a cohort into a buffer, which a thread writes to the file.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use phalanx::blocking::BlockingStage;
use phalanx::shutdown::draining;
use phalanx::stage::{Cohort, CohortStage};
use phalanx::time::{now, time_of_day};
use phalanx::{SharedStage, select, sleep};
use phalanx_http::{LogFormat, LogTime};

use crate::log::records::LogRecords;
use crate::log::sink::Sink;

pub(crate) type LogStage = CohortStage<Box<LogRecords>, ()>;

/// Time between writes, so that the thread is woken at most a hundred times per second.
const FLUSH_INTERVAL: Duration = Duration::from_millis(10);
/// Buffered bytes per processor while the file is slow; further lines are dropped.
const MAX_BUFFERED_BYTES: usize = 4 << 20;
/// Capacity of the buffer kept for later lines, in bytes.
const MAX_SPARE_BYTES: usize = 256 * 1024;

/// Log buffer of one processor.
pub(crate) struct Lines {
    format: LogFormat,
    file: BlockingStage<Sink>,
    flush: SharedStage<()>,
    buffer: RefCell<Vec<u8>>,
    spare: RefCell<Vec<u8>>,
    time: RefCell<LogTime>,
    /// Whether an operation is writing the buffer.
    writing: Cell<bool>,
    /// Lines dropped since the last write.
    dropped: Cell<u64>,
}

impl Lines {
    pub(super) fn new(
        format: LogFormat,
        file: BlockingStage<Sink>,
        flush: SharedStage<()>,
    ) -> Rc<Self> {
        Rc::new(Self {
            format,
            file,
            flush,
            buffer: RefCell::default(),
            spare: RefCell::default(),
            time: RefCell::default(),
            writing: Cell::new(false),
            dropped: Cell::new(0),
        })
    }

    fn drop_lines(&self, count: usize) {
        self.dropped.set(self.dropped.get() + count as u64);
    }
}

/// Handler of the stage's cohort operation.
pub(super) fn handle(lines: &mut Rc<Lines>, cohort: &mut Cohort<Box<LogRecords>, ()>) {
    let day = time_of_day().saturating_sub(now());
    let (buffer, time) = (&mut *lines.buffer.borrow_mut(), &mut *lines.time.borrow_mut());
    for (records, reply) in cohort.drain() {
        match buffer.len() < MAX_BUFFERED_BYTES {
            true => records.write(lines.format, day, time, buffer),
            false => lines.drop_lines(records.len()),
        }
        records.recycle();
        reply.send(());
    }
    if !lines.writing.replace(true) {
        let writer = lines.clone();
        if lines.flush.dispatch(move |_| write_all(writer)).is_err() {
            // The operation limit is reached. The next cohort tries again.
            lines.writing.set(false);
        }
    }
}

/// Writes the buffer until it stays empty.
async fn write_all(lines: Rc<Lines>) {
    let _writing = WritingGuard(&lines.writing);
    loop {
        if lines.buffer.borrow().is_empty() && lines.dropped.get() == 0 {
            return;
        }
        // Do not wait during shutdown.
        select(draining(), sleep(FLUSH_INTERVAL)).await;
        let bytes = lines.buffer.replace(lines.spare.take());
        let dropped = lines.dropped.take();
        let count = bytes.iter().filter(|byte| **byte == b'\n').count();
        let call = lines.file.call(move |sink| {
            sink.append(&bytes, dropped);
            bytes
        });
        match call.await {
            Ok(mut bytes) => {
                bytes.clear();
                if bytes.capacity() <= MAX_SPARE_BYTES {
                    lines.spare.replace(bytes);
                }
            }
            Err(_) => {
                lines.dropped.set(lines.dropped.get() + dropped);
                lines.drop_lines(count);
            }
        }
    }
}

/// Clears the flag when the operation ends, also if it is dropped.
struct WritingGuard<'a>(&'a Cell<bool>);

impl Drop for WritingGuard<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}
