//! Runs programs under valgrind's tool lackey, which prints every access to memory.

pub(crate) mod calls;
pub(crate) mod trace;

use std::ffi::{OsStr, OsString};
use std::io::{BufReader, ErrorKind};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::Error;
use trace::Event;

/// Maximum number of events after a signal: those that wait in the pipe. A process that the program has forked may write
/// more.
const MAX_REST: u32 = 100_000;

/// Runs a program under valgrind until it exits, `each` returns false, or a signal ends it. Returns its status if it has
/// exited.
pub(crate) fn run(
    path: &Path,
    arguments: &[OsString],
    environment: &[(&str, &OsStr)],
    mut each: impl FnMut(Event) -> bool,
) -> Result<Option<ExitStatus>, Error> {
    let valgrind = Path::new("valgrind");
    let (reader, writer) = std::io::pipe().map_err(Error::read(valgrind))?;
    // Only valgrind inherits it: no other child is started.
    rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty())
        .map_err(|error| Error::read(valgrind)(error.into()))?;
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(Error::read(valgrind))?;
    let listening = signals.handle();
    // valgrind knows the program by the file that a link leads to.
    let file = path.canonicalize().map_err(Error::read(path))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let child = Command::new(valgrind)
        .args(["--tool=lackey", "--trace-mem=yes", "--trace-symtab=yes"])
        .arg(format!("--trace-symtab-patt=*/{name}"))
        .arg(format!("--log-fd={}", writer.as_raw_fd()))
        .arg(path)
        .args(arguments)
        .envs(environment.iter().copied())
        // The report alone goes to standard output.
        .stdout(std::io::stderr())
        .spawn()
        .map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                Error::contents(valgrind, "not found in the PATH; install valgrind")
            }
            _ => Error::read(valgrind)(error),
        })?;
    drop(writer);
    let mut child = Ended(child);
    // A signal ends the program, which may be idle; the report follows.
    let interrupted = Arc::new(AtomicBool::new(false));
    let (is_interrupted, program) = (interrupted.clone(), Pid::from_child(&child.0));
    let listener = std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            is_interrupted.store(true, Relaxed);
            // Fails if it has exited.
            let _ = kill_process(program, Signal::KILL);
        }
    });
    let (mut rest, mut wants_more) = (MAX_REST, true);
    let read = trace::read(BufReader::with_capacity(1 << 20, reader), |event| {
        wants_more = each(event);
        rest -= u32::from(interrupted.load(Relaxed));
        rest > 0 && wants_more
    });
    // Before the child is waited for, so that its number has no other process.
    listening.close();
    listener.join().expect("no panic");
    read.map_err(Error::read(valgrind))?;
    if !interrupted.load(Relaxed) && wants_more {
        return child.0.wait().map(Some).map_err(Error::read(valgrind));
    }
    Ok(None)
}

/// A child that is killed if it has not exited.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Fails if it has exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The path of a program, like the shell finds it.
pub(crate) fn find(program: &Path) -> Result<PathBuf, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_plain = program.components().count() == 1 && !program.as_os_str().is_empty();
    let folders = std::env::split_paths(&path).filter(|_| is_plain);
    let found = folders.map(|folder| folder.join(program)).find(|path| path.is_file());
    found.map_or_else(|| std::path::absolute(program).map_err(Error::read(program)), Ok)
}
