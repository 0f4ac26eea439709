//! Destination of an access log: a file or the standard output.
//!
//! Runs on a thread that may block. A renamed or removed file is reopened before the next write, so log rotation
//! requires no signal; a signal forces it. A write to a pipe that nobody reads waits for one second, then its lines are
//! lost. So a stalled log never prevents the server from stopping.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use phalanx::metrics::Counter;
use phalanx::runtime::report;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::SigId;
use signal_hook::consts::SIGUSR1;

use crate::config::LogTarget;

/// Bytes that a writable pipe accepts without blocking.
const PIPE_CHUNK: usize = 4096;
/// Mode of a log that the server creates, before the umask: others cannot read addresses and URLs.
const LOG_MODE: u32 = 0o640;
/// Time to wait for the reader of a pipe.
const PIPE_TIMEOUT: Duration = Duration::from_secs(1);

/// Time between two messages about lost lines.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// An open log.
pub(crate) struct Sink {
    state: Mutex<State>,
    /// Set to reopen the file.
    reopen: Arc<AtomicBool>,
    /// SIGUSR1 reopens the file, as log rotation tools expect.
    signal: Option<SigId>,
    lost: Counter,
}

struct State {
    target: Target,
    /// Lost lines not yet reported on stderr.
    unreported: u64,
    last_report: Option<Instant>,
    /// Of the last attempt, if it failed.
    reopen_error: Option<io::ErrorKind>,
}

enum Target {
    Stdout(Stream),
    File { path: PathBuf, file: Stream },
}

/// An open file or pipe.
struct Stream {
    file: File,
    /// Whether a write may wait for a reader.
    may_block: bool,
    /// Whether the last write has timed out waiting for a reader. The next one does not wait, so that a stalled reader
    /// does not delay other logs.
    is_stalled: bool,
    is_line_incomplete: bool,
}

impl Sink {
    /// Opens the log, and with `signals` handles SIGUSR1. `lost` counts lost lines.
    ///
    /// # Errors
    /// As `open(2)`.
    pub(super) fn open(target: &LogTarget, signals: bool, lost: Counter) -> io::Result<Self> {
        let target = match target {
            LogTarget::Stdout => {
                Target::Stdout(Stream::new(io::stdout().as_fd().try_clone_to_owned()?.into())?)
            }
            LogTarget::File(path) => {
                Target::File { path: path.clone(), file: Stream::append_to(path)? }
            }
        };
        let reopen = Arc::default();
        let register = || signal_hook::flag::register(SIGUSR1, Arc::clone(&reopen));
        // Registration fails only for signals that cannot be handled.
        let signal = if signals { register().ok() } else { None };
        let state = State { target, unreported: 0, last_report: None, reopen_error: None };
        Ok(Self { state: Mutex::new(state), reopen, signal, lost })
    }

    /// Whether the log is written to this destination.
    pub(super) fn writes_to(&self, target: &LogTarget) -> bool {
        match (&self.lock_state().target, target) {
            (Target::Stdout(_), LogTarget::Stdout) => true,
            (Target::File { path, .. }, LogTarget::File(other)) => path == other,
            _ => false,
        }
    }

    /// Reopens the file before the next write.
    pub(super) fn reopen(&self) {
        self.reopen.store(true, Ordering::Relaxed);
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts lines that were lost before [`append`](Self::append).
    pub(super) fn count_lost(&self, lines: u64) {
        self.lost.add(lines);
    }

    /// Appends complete lines. Reports lost lines on stderr.
    pub(super) fn append(&self, lines: &[u8], mut lost: u64) {
        let mut state = self.lock_state();
        let State { target, unreported, last_report, reopen_error } = &mut *state;
        let mut reason = String::from("the log file is too slow");
        if let Target::File { path, file } = target
            && (self.reopen.swap(false, Ordering::Relaxed) || !file.is_current(path))
        {
            match Stream::append_to(path) {
                Ok(new) => (*file, *reopen_error) = (new, None),
                // Continue with the file that is open. Each write tries again, and one message is enough.
                Err(error) => {
                    if reopen_error.replace(error.kind()) != Some(error.kind()) {
                        report(format_args!(
                            "access log: cannot reopen {}, so the old file gets the lines: {error}",
                            path.display()
                        ));
                    }
                }
            }
        }
        let stream = match target {
            Target::Stdout(stream) | Target::File { file: stream, .. } => stream,
        };
        if let Err((written, error)) = stream.append(lines) {
            lost += lines[written..].iter().filter(|byte| **byte == b'\n').count() as u64;
            reason = error.to_string();
        }
        if lost > 0 {
            self.lost.add(lost);
            *unreported += lost;
            if last_report.is_none_or(|at| at.elapsed() >= REPORT_INTERVAL) {
                let (name, lost) = (name(target), std::mem::take(unreported));
                *last_report = Some(Instant::now());
                report(format_args!("access log {name}: {lost} lines lost: {reason}"));
            }
        }
    }
}

/// Handles SIGUSR1 from now on, even without a log, because log rotation may send it, and by default the signal ends
/// the process.
pub(crate) fn handle_reopen_signal() {
    // Registration fails only for signals that cannot be handled.
    let _ = signal_hook::flag::register(SIGUSR1, Arc::default());
}

/// The destination in messages.
fn name(target: &Target) -> String {
    match target {
        Target::Stdout(_) => "stdout".to_owned(),
        Target::File { path, .. } => path.display().to_string(),
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.signal.take().map(signal_hook::low_level::unregister);
    }
}

impl Stream {
    fn new(file: File) -> io::Result<Self> {
        let may_block = !file.metadata()?.is_file();
        Ok(Self { file, may_block, is_stalled: false, is_line_incomplete: false })
    }

    fn append_to(path: &Path) -> io::Result<Self> {
        let is_pipe = std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
        let mut options = OpenOptions::new();
        // Opening a named pipe only for writing waits until it has a reader.
        options.read(is_pipe).append(true).create(true).mode(LOG_MODE);
        Self::new(options.open(path)?)
    }

    /// Whether `path` is still this file.
    fn is_current(&self, path: &Path) -> bool {
        let here = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        match (self.file.metadata(), std::fs::metadata(path)) {
            (Ok(this), Ok(there)) => here(this) == here(there),
            (_, Err(error)) => error.kind() != io::ErrorKind::NotFound,
            (Err(_), _) => true,
        }
    }

    /// Appends lines. An error contains the number of bytes written.
    fn append(&mut self, lines: &[u8]) -> Result<(), (usize, io::Error)> {
        if std::mem::take(&mut self.is_line_incomplete) {
            self.write_all(b"\n").map_err(|(_, error)| {
                self.is_line_incomplete = true;
                (0, error)
            })?;
        }
        let result = self.write_all(lines);
        if let Err((written @ 1.., _)) = &result {
            self.is_line_incomplete = lines[written - 1] != b'\n';
        }
        result
    }

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
        let started = Instant::now();
        let limit = if self.is_stalled { Duration::ZERO } else { PIPE_TIMEOUT };
        let mut written = 0;
        while written < bytes.len() {
            let rest = match self.may_block {
                true => &bytes[written..bytes.len().min(written + PIPE_CHUNK)],
                false => &bytes[written..],
            };
            if self.may_block {
                self.is_stalled = !wait_until_writable(
                    self.file.as_fd(),
                    limit.saturating_sub(started.elapsed()),
                );
                if self.is_stalled {
                    return Err((written, io::Error::other("the pipe has no reader")));
                }
            }
            match self.file.write(rest) {
                Ok(0) => return Err((written, io::ErrorKind::WriteZero.into())),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => (),
                Err(error) => return Err((written, error)),
            }
        }
        Ok(())
    }
}

/// Waits for at most `limit`. Returns false if the descriptor is not writable then.
fn wait_until_writable(fd: BorrowedFd<'_>, limit: Duration) -> bool {
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    let mut polled = [PollFd::new(&fd, PollFlags::OUT)];
    // Errors of the descriptor are reported by the write.
    !matches!(poll(&mut polled, Some(&limit)), Ok(0))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn open(path: &Path) -> Sink {
        let lost = Counter::new("phalanx_test_lost", "Lost lines.");
        Sink::open(&LogTarget::File(path.into()), false, lost).unwrap()
    }

    fn lines(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn a_renamed_file_is_recreated() {
        let home = tempfile::tempdir().unwrap();
        let (path, old) = (home.path().join("log"), home.path().join("old"));
        std::fs::write(&path, "before\n").unwrap();
        let sink = open(&path);
        sink.append(b"one\n", 0);
        std::fs::rename(&path, &old).unwrap();
        sink.append(b"two\n", 0);
        assert_eq!((&*lines(&old), &*lines(&path)), ("before\none\n", "two\n"));
        // Truncated in place: the next line is at its start.
        std::fs::write(&path, "").unwrap();
        sink.append(b"three\n", 0);
        assert_eq!(lines(&path), "three\n");
        // Renamed, and recreated by another program.
        std::fs::rename(&path, &old).unwrap();
        std::fs::write(&path, "").unwrap();
        sink.append(b"four\n", 0);
        assert_eq!((&*lines(&old), &*lines(&path)), ("three\n", "four\n"));
        sink.reopen();
        sink.append(b"five\n", 0);
        assert_eq!(lines(&path), "four\nfive\n");
    }

    /// Each write tries again, but the message is not repeated.
    #[test]
    fn a_file_that_cannot_be_reopened() {
        let home = tempfile::tempdir().unwrap();
        let (path, old) = (home.path().join("log"), home.path().join("old"));
        let sink = open(&path);
        std::fs::rename(&path, &old).unwrap();
        std::fs::create_dir(&path).unwrap();
        for line in ["one\n", "two\n"] {
            sink.append(line.as_bytes(), 0);
            assert_eq!(sink.lock_state().reopen_error, Some(io::ErrorKind::IsADirectory));
        }
        std::fs::remove_dir(&path).unwrap();
        sink.append(b"three\n", 0);
        assert_eq!((&*lines(&old), &*lines(&path)), ("one\ntwo\n", "three\n"));
        assert_eq!(sink.lock_state().reopen_error, None, "the next failure is reported");
    }

    #[test]
    fn others_cannot_read_a_log_that_the_server_creates() {
        let home = tempfile::tempdir().unwrap();
        let (path, old) = (home.path().join("log"), home.path().join("old"));
        let mode = || std::fs::metadata(&path).unwrap().mode() & 0o777;
        let sink = open(&path);
        assert_eq!(mode() & !0o640, 0, "{:o}", mode());
        std::fs::rename(&path, &old).unwrap();
        sink.append(b"after a rotation\n", 0);
        assert_eq!(mode() & !0o640, 0, "{:o}", mode());
        // The mode of an existing file is left alone.
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        sink.reopen();
        sink.append(b"anew\n", 0);
        assert_eq!(mode(), 0o644);
    }

    #[test]
    fn a_named_pipe_without_a_reader_is_opened() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("log");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::from_raw_mode(0o600))
            .unwrap();
        let (opened, sink) = std::sync::mpsc::channel();
        let named = path.clone();
        std::thread::spawn(move || opened.send(open(&named)).unwrap());
        let sink = sink.recv_timeout(Duration::from_secs(10)).expect("the pipe is opened");
        sink.append(b"one\n", 0);
        let mut line = [0; 4];
        io::Read::read_exact(&mut File::open(&path).unwrap(), &mut line).unwrap();
        assert_eq!(&line, b"one\n");
    }

    #[test]
    fn a_stalled_reader_is_not_waited_for() {
        let (mut reader, writer) = io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let mut stream = Stream::new(file).unwrap();
        let many = "a line of the log\n".repeat(20_000);
        let (written, _) = stream.append(many.as_bytes()).unwrap_err();
        assert!(written > 0 && written < many.len());
        assert!(stream.is_stalled, "the next write does not wait");
        stream.append(b"more\n").unwrap_err();
        let read = std::thread::spawn(move || {
            let mut text = String::new();
            io::Read::read_to_string(&mut reader, &mut text).unwrap();
            text
        });
        phalanx_testkit::eventually("a reader", || stream.append(b"the next\n").ok());
        drop(stream);
        let text = read.join().unwrap();
        assert!(text.ends_with("\nthe next\n"), "a line that was cut off is ended");
        assert_eq!(text.lines().filter(|line| *line == "the next").count(), 1);
    }
}
