//! A server process of the real binary, killed at the end of a test.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Timeout of all waits, which only failing tests reach.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs a test on this driver, if the machine supports it and `PHALANX_DRIVER` does not name another. With
/// `PHALANX_REQUIRE_URING=1`, a machine without io_uring fails instead of skipping.
pub(crate) fn on(driver: &'static str, test: fn(&'static str)) {
    let named = std::env::var("PHALANX_DRIVER").unwrap_or_default();
    if ["uring", "poll"].contains(&named.as_str()) && named != driver {
        println!("skipped: PHALANX_DRIVER={named}");
        return;
    }
    if driver == "uring"
        && let Err(why) = uring()
    {
        assert!(std::env::var_os("PHALANX_REQUIRE_URING").is_none_or(|set| set != "1"), "{why}");
        println!("skipped: {why}");
        return;
    }
    test(driver);
}

/// Makes each named function a test per driver, `name::uring` and `name::poll`.
macro_rules! on_each_driver {
    ($($name:ident),* $(,)?) => {$(
        mod $name {
            #[test]
            fn uring() {
                $crate::server::on("uring", super::$name);
            }

            #[test]
            fn poll() {
                $crate::server::on("poll", super::$name);
            }
        }
    )*};
}
pub(crate) use on_each_driver;

/// Whether this machine permits io_uring, or the program's error message.
fn uring() -> &'static Result<(), String> {
    static URING: OnceLock<Result<(), String>> = OnceLock::new();
    URING.get_or_init(|| {
        // An unavailable address makes it exit; without io_uring it exits earlier with another message.
        let root = tempfile::tempdir().unwrap();
        let mut child = spawn(program("uring", root.path()));
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if line.starts_with("listening") { Ok(()) } else { Err(why) }
    })
}

/// The base command of every test: two workers, a free port, and an environment without the user's variables.
pub(crate) fn program(driver: &str, root: &Path) -> Command {
    let mut command = bare();
    command.arg("web").arg(root).args(["--listen", "127.0.0.1:0", "--workers", "2"]);
    command.args(["--driver", driver]);
    command
}

/// The binary, without environment variables for its options.
pub(crate) fn bare() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_ours(name)) {
        command.env_remove(name);
    }
    command
}

fn is_ours(name: &OsStr) -> bool {
    name.to_string_lossy().starts_with("PHALANX_")
}

fn spawn(command: Command) -> Child {
    spawn_with(command, Stdio::null())
}

fn spawn_with(mut command: Command, stdin: Stdio) -> Child {
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("cargo has built the binary")
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    /// Schemes of the addresses it prints.
    schemes: &'static [&'static str],
    pub(crate) address: SocketAddr,
    stdout: Receiver<String>,
    stderr: Arc<Mutex<String>>,
    ended: Option<ExitStatus>,
}

impl Server {
    /// Serves `root`.
    pub(crate) fn start(driver: &str, root: &Path) -> Self {
        Self::start_with(driver, root, &[])
    }

    /// Serves `root` with additional arguments.
    pub(crate) fn start_with(driver: &str, root: &Path, arguments: &[&str]) -> Self {
        let mut command = program(driver, root);
        command.args(arguments);
        Self::launch(command)
    }

    /// Serves with a configuration file written to `directory`, on which its relative paths are based, and with
    /// additional arguments.
    pub(crate) fn configured(
        driver: &str,
        directory: &Path,
        text: &str,
        arguments: &[&str],
    ) -> Self {
        let file = directory.join("web.toml");
        fs::write(&file, text).unwrap();
        let mut command = bare();
        command.args(["web", "--workers", "2", "--driver", driver]).args(arguments);
        command.arg("--config").arg(&file);
        Self::launch(command)
    }

    /// Runs `command` until it is ready.
    pub(crate) fn launch(command: Command) -> Self {
        Self::launch_with(command, Stdio::null())
    }

    /// As [`Server::launch`], with standard input.
    pub(crate) fn launch_with(command: Command, stdin: Stdio) -> Self {
        Self::launch_speaking(&["http", "https"], command, stdin)
    }

    /// As [`Server::launch_with`], with these schemes of ready lines.
    pub(crate) fn launch_speaking(
        schemes: &'static [&'static str],
        command: Command,
        stdin: Stdio,
    ) -> Self {
        let mut child = spawn_with(command, stdin);
        let (send, stdout) = channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| send.send(line)));
        let stderr = Arc::new(Mutex::new(String::new()));
        let (mut pipe, text) = (child.stderr.take().unwrap(), stderr.clone());
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut bytes) {
                text.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        let unknown = ([0, 0, 0, 0], 0).into();
        let mut server = Self { child, schemes, address: unknown, stdout, stderr, ended: None };
        let Ok(line) = server.stdout.recv_timeout(TIMEOUT) else {
            panic!("no ready line; stderr: {}", server.stderr())
        };
        server.address = address(schemes, &line);
        server
    }

    /// The next line of its stdout.
    pub(crate) fn line(&self) -> String {
        self.stdout.recv_timeout(TIMEOUT).expect("another line on stdout")
    }

    /// The address of the next ready line.
    pub(crate) fn next_address(&self) -> SocketAddr {
        address(self.schemes, &self.line())
    }

    /// All output on stderr so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Address of the admin pages, from its output.
    pub(crate) fn admin(&self) -> SocketAddr {
        let said = "admin page at http://";
        eventually("the admin pages' address", || {
            let text = self.stderr();
            let after = &text[text.find(said)? + said.len()..];
            after[..after.find('/')?].parse().ok()
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Whether it is running.
    pub(crate) fn lives(&mut self) -> bool {
        self.ended = self.ended.or(self.child.try_wait().unwrap());
        self.ended.is_none()
    }

    /// Waits for its exit.
    pub(crate) fn exit(&mut self, limit: Duration) -> ExitStatus {
        let begun = Instant::now();
        while self.lives() {
            assert!(begun.elapsed() < limit, "it has not ended in {limit:?}");
            thread::sleep(Duration::from_millis(5));
        }
        self.ended.expect("it has ended")
    }

    /// Waits for its successful exit, without output after the ready line.
    pub(crate) fn exits_well(&mut self, limit: Duration) {
        let status = self.exit(limit);
        assert!(status.success(), "{status}, signal {:?}: {}", status.signal(), self.stderr());
        assert_eq!(self.stdout.recv_timeout(TIMEOUT).ok(), None, "more than one line on stdout");
    }
}

/// The address in a ready line.
fn address(schemes: &[&str], line: &str) -> SocketAddr {
    let url = line.strip_prefix("listening on ").expect("the ready line");
    let (scheme, address) = url.split_once("://").expect("a URL");
    assert!(schemes.contains(&scheme), "{line}");
    address.parse().expect("an address in the ready line")
}

impl Drop for Server {
    fn drop(&mut self) {
        let early = if self.lives() { None } else { self.ended };
        let _ = self.child.kill();
        let _ = self.child.wait();
        let stderr = self.stderr();
        if thread::panicking() {
            eprintln!("--- the server's end: {early:?}, its stderr:\n{stderr}---");
        } else {
            // A stage survives a panic of one operation, so check that none occurred.
            assert!(!stderr.contains("panicked"), "the server panicked:\n{stderr}");
        }
    }
}

/// Repeats `attempt` until it returns a value, at most for [`TIMEOUT`].
pub(crate) fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(begun.elapsed() < TIMEOUT, "in vain: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
