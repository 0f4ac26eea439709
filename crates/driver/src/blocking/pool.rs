//! Helper threads for blocking calls: opening, reading, writing and syncing files.
//!
//! There are at most four, shared by all drivers of the process. They start on demand and exit when they have been idle
//! for ten seconds. A job owns all its data, so its requester may be dropped at any time.

use std::collections::VecDeque;
use std::ffi::CString;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::files::{read, resolve_beneath};
use crate::process::affinity::use_all_cores;
use crate::user_bytes::UserBytes;
use crate::{Done, File, OpenHow, Unpark};

const MAX_THREADS: usize = 4;
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// A blocking call.
pub(crate) enum Work {
    Open { directory: File, path: CString, how: OpenHow },
    ReadAt { file: File, buffer: Vec<u8>, offset: u64, length: usize },
    WriteAt { file: File, bytes: UserBytes, offset: u64 },
    Sync { file: File, data_only: bool },
}

impl Work {
    /// Whether the call changes a file, so that its completion matters even after a cancellation.
    pub(crate) fn changes_a_file(&self) -> bool {
        matches!(self, Work::WriteAt { .. } | Work::Sync { .. })
    }
}

/// The result of a call. (A [`Done`] is not `Send`.)
pub(crate) enum Answer {
    Opened(File),
    Read(Vec<u8>),
    Written,
    Synced,
}

impl From<Answer> for Done {
    fn from(answer: Answer) -> Done {
        match answer {
            Answer::Opened(file) => Done::Opened(file),
            Answer::Read(bytes) => Done::Read(bytes),
            Answer::Written => Done::Written,
            Answer::Synced => Done::Synced,
        }
    }
}

/// The results for one driver.
pub(crate) struct Inbox {
    answers: Mutex<Vec<(u64, io::Result<Answer>)>>,
    driver: Arc<dyn Unpark>,
}

impl Inbox {
    pub(crate) fn new(driver: Arc<dyn Unpark>) -> Arc<Inbox> {
        Arc::new(Inbox { answers: Mutex::default(), driver })
    }

    pub(crate) fn take(&self) -> Vec<(u64, io::Result<Answer>)> {
        std::mem::take(&mut lock(&self.answers))
    }
}

/// The queue that the threads share.
struct BlockingPool {
    state: Mutex<State>,
    work: Condvar,
}

struct State {
    jobs: VecDeque<(Work, u64, Arc<Inbox>)>,
    threads: usize,
    idle: usize,
}

static POOL: BlockingPool = BlockingPool {
    state: Mutex::new(State { jobs: VecDeque::new(), threads: 0, idle: 0 }),
    work: Condvar::new(),
};

/// Queues `work`. Its result will be put into `inbox` with the number `job`.
pub(crate) fn start(work: Work, job: u64, inbox: Arc<Inbox>) {
    let mut state = lock(&POOL.state);
    state.jobs.push_back((work, job, inbox));
    if state.idle < state.jobs.len() && state.threads < MAX_THREADS {
        state.threads += 1;
        let started = thread::Builder::new().name("phalanx-files".to_owned()).spawn(run_helper);
        if started.is_err() {
            state.threads -= 1;
            if state.threads == 0 {
                // If no thread can be created, the call runs here and blocks the processor.
                let (work, job, inbox) = state.jobs.pop_back().expect("pushed above");
                drop(state);
                return answer(work, job, &inbox);
            }
        }
    }
    drop(state);
    POOL.work.notify_one();
}

/// Removes a queued job. Returns false if a thread has already started it.
pub(crate) fn cancel(job: u64, inbox: &Arc<Inbox>) -> bool {
    let mut state = lock(&POOL.state);
    let mut jobs = state.jobs.iter();
    let place = jobs.position(|(_, other, of)| *other == job && Arc::ptr_eq(of, inbox));
    let cancelled = place.and_then(|place| state.jobs.remove(place));
    drop(state);
    cancelled.is_some()
}

/// The loop of a helper thread.
fn run_helper() {
    use_all_cores();
    let mut state = lock(&POOL.state);
    loop {
        if let Some((work, job, inbox)) = state.jobs.pop_front() {
            drop(state);
            answer(work, job, &inbox);
            state = lock(&POOL.state);
            continue;
        }
        state.idle += 1;
        let (woken, timeout) =
            POOL.work.wait_timeout(state, IDLE_TIMEOUT).unwrap_or_else(PoisonError::into_inner);
        state = woken;
        state.idle -= 1;
        if timeout.timed_out() && state.jobs.is_empty() {
            state.threads -= 1;
            return;
        }
    }
}

fn answer(work: Work, job: u64, inbox: &Inbox) {
    let result = perform(work);
    lock(&inbox.answers).push((job, result));
    inbox.driver.unpark();
}

fn perform(work: Work) -> io::Result<Answer> {
    match work {
        Work::Open { directory, path, how } => {
            resolve_beneath::open(directory.fd()?, &path, how).map(|fd| Answer::Opened(fd.into()))
        }
        Work::ReadAt { file, buffer, offset, length } => {
            read::read(file.fd()?, buffer, offset, length).map(Answer::Read)
        }
        Work::WriteAt { file, bytes, offset } => {
            write(&file, &bytes, offset).map(|()| Answer::Written)
        }
        Work::Sync { file, data_only } => sync(&file, data_only).map(|()| Answer::Synced),
    }
}

fn write(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    read::check_range(offset, bytes.len())?;
    let fd = file.fd()?;
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::pwrite(fd, &bytes[written..], offset + written as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(some) => written += some,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(not(target_vendor = "apple"))]
fn sync(file: &File, data_only: bool) -> io::Result<()> {
    let fd = file.fd()?;
    let synced = if data_only { rustix::fs::fdatasync(fd) } else { rustix::fs::fsync(fd) };
    synced.map_err(io::Error::from)
}

/// On Apple systems, `fsync` leaves the data in the disk's write cache.
#[cfg(target_vendor = "apple")]
fn sync(file: &File, _: bool) -> io::Result<()> {
    rustix::fs::fcntl_fullfsync(file.fd()?).map_err(io::Error::from)
}

/// Ignores poisoning: no code that may panic runs under these locks, and their data is always consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
