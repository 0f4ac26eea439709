//! A broker under test.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::server::{Server, TIMEOUT, bare, eventually};

/// A broker that is up.
pub(crate) struct Broker {
    server: Server,
    pub(crate) address: SocketAddr,
}

impl Broker {
    pub(crate) fn start(driver: &str) -> Self {
        Self::start_with(driver, &[])
    }

    /// With more arguments.
    pub(crate) fn start_with(driver: &str, arguments: &[&str]) -> Self {
        Self::launch(driver, &[&["--ephemeral"], arguments].concat())
    }

    /// One that listens at this address.
    pub(crate) fn start_at(driver: &str, address: SocketAddr) -> Self {
        let mut command = bare();
        command.args(["broker", "--listen", &address.to_string()]);
        Self::run(driver, &["--ephemeral"], command)
    }

    /// One that keeps what it has.
    pub(crate) fn start_on(driver: &str, data: &Path) -> Self {
        Self::launch(driver, &["--persistence-dir", data.to_str().unwrap()])
    }

    /// One with these arguments alone.
    pub(crate) fn start_with_data(driver: &str, arguments: &[&str]) -> Self {
        Self::launch(driver, arguments)
    }

    /// One that is told all by a file.
    pub(crate) fn start_by(driver: &str, file: &Path) -> Self {
        let mut command = bare();
        command.args(["broker", "--config"]).arg(file);
        Self::run(driver, &["--ephemeral"], command)
    }

    /// One that may have so many descriptors.
    pub(crate) fn start_limited(driver: &str, descriptors: u32) -> Self {
        let program = bare();
        let mut command = Command::new("sh");
        let script = format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"");
        command.args(["-c", &script]).arg(program.get_program());
        command.args(["broker", "--listen", "127.0.0.1:0"]);
        for (name, _) in program.get_envs() {
            command.env_remove(name);
        }
        Self::run(driver, &["--ephemeral"], command)
    }

    /// It has two processors, so that much goes from one to the other.
    fn launch(driver: &str, arguments: &[&str]) -> Self {
        let mut command = bare();
        command.args(["broker", "--listen", "127.0.0.1:0"]);
        Self::run(driver, arguments, command)
    }

    fn run(driver: &str, arguments: &[&str], mut command: Command) -> Self {
        command.env("PHALANX_BROKER_WORKERS", "2");
        command.args(["--driver", driver]).args(arguments);
        let server =
            Server::launch_speaking(&["mqtt", "mqtts", "ws", "wss"], command, Stdio::null());
        Self { address: server.address, server }
    }

    /// Where it listens, too: of the next ready line.
    pub(crate) fn next_address(&self) -> SocketAddr {
        self.server.next_address()
    }

    /// Where its admin pages are.
    pub(crate) fn admin(&self) -> SocketAddr {
        self.server.admin()
    }

    /// What it has said on stderr.
    pub(crate) fn stderr(&self) -> String {
        self.server.stderr()
    }

    /// Has it read its files again, and waits until it has said how that went: with `word`.
    pub(crate) fn rereads(&self, word: &str) {
        let said = self.server.stderr().len();
        self.server.signal(Signal::HUP);
        eventually(word, || self.server.stderr()[said..].contains(word).then_some(()));
    }

    /// Ends it in the middle of whatever it does.
    pub(crate) fn crashes(mut self) {
        self.server.signal(Signal::KILL);
        self.server.exit(TIMEOUT);
    }

    /// Asks it to end, and waits for that.
    pub(crate) fn ends_well(&mut self) {
        self.server.signal(Signal::TERM);
        self.server.exits_well(TIMEOUT);
    }
}
