//! NATS servers (Debian's `nats-server`).

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::clients::tcp::{listener, unique_loopback};
use crate::servers::process::Process;
use crate::wait::eventually;

/// A running NATS server. Dropping it kills it.
pub struct NatsServer {
    /// Its address.
    pub address: SocketAddr,
    process: Option<Process>,
    folder: TempDir,
    program: &'static str,
}

impl NatsServer {
    /// Starts a server with further lines of configuration. `None` if it is not installed; then prints a message past
    /// the test harness, which hides the output of passing tests.
    pub fn start(lines: &str) -> Option<Self> {
        Self::start_at(unique_loopback(), lines)
    }

    /// Like [`start`](Self::start), at an address of the caller's [own](unique_loopback).
    pub fn start_at(host: Ipv4Addr, lines: &str) -> Option<Self> {
        let program =
            ["/usr/sbin/nats-server", "/usr/local/bin/nats-server", "/root/go/bin/nats-server"]
                .into_iter()
                .find(|path| Path::new(path).exists());
        let Some(program) = program else {
            let message =
                "LEFT OUT: nats-server is not installed (Debian: apt-get install nats-server)\n";
            let _ = std::io::stderr().write_all(message.as_bytes());
            return None;
        };
        let address = match host.is_loopback() && host != Ipv4Addr::LOCALHOST {
            // No other process listens there.
            true => SocketAddr::from((host, 4222)),
            false => listener().1,
        };
        let folder = tempfile::tempdir().unwrap();
        let mut server = Self { address, process: None, folder, program };
        server.restart_with(lines);
        Some(server)
    }

    /// Kills the server, and starts it again at the same address with other lines of configuration.
    pub fn restart_with(&mut self, lines: &str) {
        let (address, folder) = (self.address, self.folder.path());
        let text = format!(
            "listen: \"{address}\"\njetstream {{ store_dir: \"{}\" }}\n{lines}\n",
            folder.join("streams").display()
        );
        fs::write(folder.join("nats.conf"), text).unwrap();
        self.restart();
    }

    /// The URL.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Kills the server, and starts it again at the same address.
    pub fn restart(&mut self) {
        self.stop();
        let mut command = Command::new(self.program);
        command.arg("-c").arg(self.folder.path().join("nats.conf"));
        self.process = Some(Process::start(command));
        eventually("nats-server listens", || TcpStream::connect(self.address).ok().map(drop));
    }

    /// Kills the server.
    pub fn stop(&mut self) {
        self.process = None;
    }
}
