//! A broker under test.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use phalanx::Choice;
use rustix::process::{Pid, Signal, kill_process};

/// What takes longer than this does not happen, however busy the machine is.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Runs `test` with brokers on this driver, unless another was asked for or this machine has none.
pub(crate) fn on(driver: &str, test: fn(&str)) {
    let wanted = std::env::var("PHALANX_DRIVER").unwrap_or_default();
    if !wanted.is_empty() && wanted != "auto" && wanted != driver {
        return;
    }
    if driver == "uring" && !has_uring() {
        eprintln!("left out: there is no io_uring here");
        return;
    }
    test(driver);
}

/// Whether a program can be run on io_uring here.
fn has_uring() -> bool {
    let runtime = phalanx::Runtime::new().processors(1).driver(Choice::Uring).signals(false);
    let run = runtime.run(phalanx::Graph::new(), |start| {
        start.control().drain();
        Ok(())
    });
    run.is_ok()
}

/// The binary, without the variables that it would take arguments from.
pub(crate) fn bare() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    let ours = |name: &OsStr| name.to_string_lossy().starts_with("PHALANX_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    command
}

/// A broker that is up.
pub(crate) struct Broker {
    child: Child,
    pub(crate) address: SocketAddr,
    stderr: Arc<Mutex<String>>,
    _stdout: Receiver<String>,
}

impl Broker {
    pub(crate) fn start(driver: &str) -> Self {
        Self::start_with(driver, &[])
    }

    /// With more arguments. It has two processors, so that much goes from one to the other.
    pub(crate) fn start_with(driver: &str, arguments: &[&str]) -> Self {
        let mut command = bare();
        command.args(["broker", "--listen", "127.0.0.1:0", "--ephemeral"]);
        command.env("PHALANX_PROCESSORS", "2");
        command.args(["--driver", driver]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("cargo has built the binary");
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
        let Ok(line) = stdout.recv_timeout(LONG) else {
            let _ = child.kill();
            panic!("no ready line; stderr: {}", stderr.lock().unwrap())
        };
        let address = line.strip_prefix("listening on mqtt://").expect("the ready line");
        let address = address.parse().expect("an address");
        Self { child, address, stderr, _stdout: stdout }
    }

    /// Asks it to end, and waits for that.
    pub(crate) fn ends_well(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let status = self.exit();
        assert!(status.success(), "{status}: {}", self.stderr.lock().unwrap());
    }

    fn exit(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < LONG, "it has not ended in {LONG:?}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let stderr = self.stderr.lock().unwrap();
        if thread::panicking() {
            eprintln!("--- the broker's stderr:\n{stderr}---");
        } else {
            // A stage survives a panic of one operation; that must not hide one from the tests.
            assert!(!stderr.contains("panicked"), "the broker panicked:\n{stderr}");
        }
    }
}
