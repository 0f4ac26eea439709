//! A server process of the real binary, killed at the end of a test.

use std::fs;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use phalanx_testkit::process::{Process, Signal, clean};
use phalanx_testkit::tcp::unique_loopback;
use phalanx_testkit::{driver, eventually};

/// Runs a test on this driver, if the machine has it and the environment does not select another.
pub(crate) fn on(driver: &'static str, test: fn(&'static str)) {
    if driver::is_selected(driver, || if driver == "uring" { uring() } else { Ok(()) }) {
        test(driver);
    }
}

/// Makes each named function a test per driver, `name::uring` and `name::poll`.
macro_rules! on_each_driver {
    ($($name:ident),* $(,)?) => { phalanx_testkit::per_driver!($crate::server::on: $($name),*); };
}
pub(crate) use on_each_driver;

/// Makes each named function a test on the driver that the server chooses by default, or on the one that the environment
/// selects: for rules that do not depend on the driver.
macro_rules! on_one_driver {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            #[test]
            fn on_one_driver() {
                $crate::server::on_one(super::$name);
            }
        })*
    };
}
pub(crate) use on_one_driver;

pub(crate) fn on_one(test: fn(&'static str)) {
    let poll = std::env::var_os("PHALANX_DRIVER").is_some_and(|named| named == "poll");
    test(if !poll && uring().is_ok() { "uring" } else { "poll" });
}

/// Whether this machine permits io_uring, or the program's error message.
fn uring() -> Result<(), String> {
    static URING: OnceLock<Result<(), String>> = OnceLock::new();
    let result = URING.get_or_init(|| {
        let root = tempfile::tempdir().unwrap();
        let mut process = Process::start(program("uring", root.path()));
        match process.next_line() {
            Some(line) if line.starts_with("listening") => Ok(()),
            _ => {
                process.kill();
                Err(process.stderr().trim().to_owned())
            }
        }
    });
    result.clone()
}

/// The base command of every test: two workers, a free port, and an environment without the user's variables. Admission
/// is off: on a busy test machine requests queue for long.
pub(crate) fn program(driver: &str, root: &Path) -> Command {
    program_at("127.0.0.1:0", driver, root)
}

fn program_at(listen: &str, driver: &str, root: &Path) -> Command {
    let mut command = bare();
    command.arg("web").arg(root).args(["--listen", listen, "--workers", "2"]);
    command.args(["--driver", driver, "--max-queue-delay", "0"]);
    command
}

/// The binary, without environment variables for its options.
pub(crate) fn bare() -> Command {
    clean(env!("CARGO_BIN_EXE_phalanx"))
}

/// The command with a stderr that accepts nothing. Only Linux has such a device.
pub(crate) fn without_stderr(own: &Command) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>/dev/full", "sh"]).arg(own.get_program());
    command.args(own.get_args()).env_clear().stdin(Stdio::null());
    command
}

/// A running server.
pub(crate) struct Server {
    process: Process,
    /// Schemes of the addresses it prints.
    schemes: &'static [&'static str],
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Serves `root`.
    pub(crate) fn start(driver: &str, root: &Path) -> Self {
        Self::start_with(driver, root, &[])
    }

    /// Serves `root` with additional arguments; over TLS, if they include a certificate.
    pub(crate) fn start_with(driver: &str, root: &Path, arguments: &[&str]) -> Self {
        let tls = arguments.contains(&"--tls-certificate");
        let listen = if tls { "https://127.0.0.1:0" } else { "127.0.0.1:0" };
        let mut command = program_at(listen, driver, root);
        command.args(arguments);
        Self::launch(command)
    }

    /// Serves `root` with additional arguments, on an address of this test only.
    pub(crate) fn start_apart(driver: &str, root: &Path, arguments: &[&str]) -> Self {
        let mut command = bare();
        command.arg("web").arg(root).args(["--listen", &format!("{}:0", unique_loopback())]);
        command.args(["--workers", "2", "--driver", driver, "--max-queue-delay", "0"]);
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

    /// Starts `command` and waits until it is ready.
    pub(crate) fn launch(command: Command) -> Self {
        Self::launch_with(command, Stdio::null())
    }

    /// Like [`Server::launch`], with standard input.
    pub(crate) fn launch_with(command: Command, stdin: Stdio) -> Self {
        Self::launch_speaking(&["http", "https"], command, stdin)
    }

    /// Like [`Server::launch_with`], with these schemes of ready lines.
    pub(crate) fn launch_speaking(
        schemes: &'static [&'static str],
        command: Command,
        stdin: Stdio,
    ) -> Self {
        let process = Process::start_with(command, stdin);
        let address = address(schemes, &process.line());
        Self { process, schemes, address }
    }

    /// The address of the next ready line.
    pub(crate) fn next_address(&self) -> SocketAddr {
        address(self.schemes, &self.line())
    }

    /// Address of the admin pages, from its output.
    pub(crate) fn admin(&self) -> SocketAddr {
        let prefix = "admin page at http://";
        eventually("the admin pages' address", || {
            let text = self.stderr();
            let after = &text[text.find(prefix)? + prefix.len()..];
            after[..after.find('/')?].parse().ok()
        })
    }

    /// Reloads the configuration. Returns the messages about it, which end with the result.
    pub(crate) fn reload(&self) -> String {
        let before = self.stderr().len();
        self.signal(Signal::HUP);
        eventually("a message about the reload", || {
            let output = self.stderr()[before..].to_owned();
            let is_done =
                output.contains("phalanx: reloaded") || output.contains("phalanx: not reloaded");
            (is_done && output.ends_with('\n')).then_some(output)
        })
    }

    /// Reloads the configuration, which succeeds. Returns the messages about it.
    pub(crate) fn reloaded(&self) -> String {
        let output = self.reload();
        assert!(output.contains("phalanx: reloaded"), "{output}");
        output
    }

    /// Waits for its successful exit, without output after the ready lines.
    pub(crate) fn expect_success(&mut self) {
        assert_eq!(self.process.expect_success(), [""; 0], "more than ready lines on stdout");
    }

    /// Sends SIGTERM and waits for its successful exit.
    pub(crate) fn ends_well(&mut self) {
        self.signal(Signal::TERM);
        self.expect_success();
    }
}

impl Deref for Server {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// The address in a ready line.
fn address(schemes: &[&str], line: &str) -> SocketAddr {
    let url = line.strip_prefix("listening on ").expect("the ready line");
    let (scheme, address) = url.split_once("://").expect("a URL");
    let plain = scheme.strip_prefix("proxy+").unwrap_or(scheme);
    assert!(schemes.contains(&plain), "{line}");
    address.parse().expect("an address in the ready line")
}
