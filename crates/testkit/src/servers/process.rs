//! Processes: servers that print their addresses, killed at the end of a test.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::{Pid, kill_process};

pub use rustix::process::Signal;

use crate::wait::{TIMEOUT, eventually};

/// A command without the user's environment variables for Phalanx (`PHALANX_…`).
pub fn clean(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PHALANX_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs curl, independent of proxies and the user's settings.
pub fn curl(arguments: &[&str]) -> Output {
    let output = Command::new("curl")
        .args(["--disable", "--noproxy", "*", "--silent", "--show-error", "--max-time", "60"])
        .args(arguments)
        .output();
    output.expect("these tests need curl: install it (Debian: apt-get install curl)")
}

/// Runs [`curl`], which must succeed, and returns its stdout.
#[track_caller]
pub fn curl_output(arguments: &[&str]) -> String {
    let output = curl(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "curl {arguments:?}: {}: {errors}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

/// A running process. Threads collect its stdout by lines and its stderr as text.
///
/// When it is dropped, the process is killed; a panic message on its stderr fails the test.
pub struct Process {
    child: Child,
    stdout: Mutex<Receiver<String>>,
    stderr: Arc<Mutex<String>>,
    exit_status: Option<ExitStatus>,
}

impl Process {
    /// Starts `command` without standard input.
    pub fn start(command: Command) -> Self {
        Self::start_with(command, Stdio::null())
    }

    /// Starts `command` with this standard input.
    pub fn start_with(mut command: Command, stdin: Stdio) -> Self {
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (send, stdout) = channel();
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| send.send(line)));
        let stderr = Arc::new(Mutex::new(String::new()));
        let (mut pipe, text) = (child.stderr.take().expect("a pipe"), stderr.clone());
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut bytes) {
                text.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { child, stdout: Mutex::new(stdout), stderr, exit_status: None }
    }

    /// The next line of its stdout; `None` if it has closed stdout.
    pub fn next_line(&self) -> Option<String> {
        self.stdout.lock().unwrap().recv_timeout(TIMEOUT).ok()
    }

    /// The next line of its stdout.
    pub fn line(&self) -> String {
        let line = self.next_line();
        line.unwrap_or_else(|| panic!("no line on stdout; stderr: {}", self.stderr()))
    }

    /// The address at the end of the next line of its stdout, after a scheme if there is one.
    pub fn address(&self) -> SocketAddr {
        let line = self.line();
        let last = line.split_whitespace().last().unwrap_or_default();
        let address = last.split_once("://").map_or(last, |(_, address)| address);
        address.parse().unwrap_or_else(|_| panic!("no address at the end of {line:?}"))
    }

    /// All output on stderr so far.
    pub fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// The process identifier.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is a child of this process");
    }

    /// Whether it is running.
    pub fn is_running(&mut self) -> bool {
        self.exit_status = self.exit_status.or(self.child.try_wait().expect("its state"));
        self.exit_status.is_none()
    }

    /// Waits for its exit.
    pub fn exit(&mut self) -> ExitStatus {
        eventually("the end of the process", || (!self.is_running()).then_some(()));
        self.exit_status.expect("it has ended")
    }

    /// Waits for its successful exit, and returns the remaining lines of its stdout.
    pub fn expect_success(&mut self) -> Vec<String> {
        let status = self.exit();
        assert!(status.success(), "{status}, signal {:?}: {}", status.signal(), self.stderr());
        std::iter::from_fn(|| self.next_line()).collect()
    }

    /// Asks it to shut down, and waits for its successful exit. Returns the remaining lines of its stdout.
    pub fn shut_down(&mut self) -> Vec<String> {
        self.signal(Signal::TERM);
        self.expect_success()
    }

    /// Kills it and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        self.exit();
    }
}

impl Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("pid", &self.pid()).finish_non_exhaustive()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let exited_early = if self.is_running() { None } else { self.exit_status };
        let _ = self.child.kill();
        let _ = self.child.wait();
        let stderr = self.stderr();
        if thread::panicking() {
            eprintln!("--- the server's end: {exited_early:?}, its stderr:\n{stderr}---");
        } else {
            // A stage survives a panic of one operation, so check that none occurred.
            assert!(!stderr.contains("panicked"), "the server panicked:\n{stderr}");
        }
    }
}
