//! A broker under test.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Command, Stdio};

use phalanx_testkit::eventually;

use crate::server::{Server, bare};

/// A running broker.
pub(crate) struct Broker {
    server: Server,
}

impl Broker {
    pub(crate) fn start(driver: &str) -> Self {
        Self::start_with(driver, &[])
    }

    /// A broker with additional arguments.
    pub(crate) fn start_with(driver: &str, arguments: &[&str]) -> Self {
        Self::launch(driver, &[&["--ephemeral"], arguments].concat())
    }

    /// A broker that listens on this address.
    pub(crate) fn start_at(driver: &str, address: SocketAddr) -> Self {
        Self::start_at_with(driver, address, &["--ephemeral"])
    }

    /// A broker that listens on this address, with only these arguments.
    pub(crate) fn start_at_with(driver: &str, address: SocketAddr, arguments: &[&str]) -> Self {
        let mut command = bare();
        command.args(["broker", "--listen", &address.to_string()]);
        Self::run(driver, arguments, command)
    }

    /// A broker with this persistence directory.
    pub(crate) fn start_on(driver: &str, data: &Path) -> Self {
        Self::launch(driver, &["--persistence-dir", data.to_str().unwrap()])
    }

    /// A broker with only these arguments.
    pub(crate) fn start_with_data(driver: &str, arguments: &[&str]) -> Self {
        Self::launch(driver, arguments)
    }

    /// A broker without an address but those in the arguments.
    pub(crate) fn start_bare(driver: &str, arguments: &[&str]) -> Self {
        let mut command = bare();
        command.arg("broker");
        Self::run(driver, &[&["--ephemeral"], arguments].concat(), command)
    }

    /// A broker with this configuration file.
    pub(crate) fn start_by(driver: &str, file: &Path) -> Self {
        let mut command = bare();
        command.args(["broker", "--config"]).arg(file);
        Self::run(driver, &["--ephemeral"], command)
    }

    /// A broker with a limit on open descriptors.
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

    /// Starts a broker with two workers, so that much crosses between them.
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
        Self { server }
    }

    /// Reloads the files and waits for a message that contains `word`. Returns the messages since the signal.
    pub(crate) fn rereads(&self, word: &str) -> String {
        let before = self.server.stderr().len();
        self.server.reload();
        eventually(word, || {
            let output = self.server.stderr()[before..].to_owned();
            output.contains(word).then_some(output)
        })
    }

    /// Kills the broker.
    pub(crate) fn crashes(mut self) {
        self.server.kill();
    }
}

impl Deref for Broker {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl DerefMut for Broker {
    fn deref_mut(&mut self) -> &mut Server {
        &mut self.server
    }
}

impl From<&Broker> for SocketAddr {
    fn from(broker: &Broker) -> Self {
        broker.address
    }
}
