//! The processes of a cluster: NATS servers and brokers, with a relay between each broker and each server.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::machines::Machine;
use super::relay::{Mode, Relay};
use super::servers;

/// Time in which a process starts or ends on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The exit code of a broker whose sessions another node has adopted.
const ADOPTED: i32 = 75;

/// Queues that hold everything that the load publishes while a node is away.
const QUEUES: [&str; 4] = ["--max-queued-messages", "1000000", "--max-queued-bytes", "1G"];

/// The address of a namespace is not a loopback address, but no other machine reaches it.
const SEPARATE: [&str; 2] = ["--allow-anonymous", "--admin-public"];

/// The size of a cluster.
#[derive(Clone, Copy)]
pub(super) struct ClusterConfig {
    pub(super) nodes: usize,
    pub(super) servers: usize,
    /// Whether NATS has a copy of the sessions.
    pub(super) sessions_kept: bool,
}

/// NATS servers and their brokers. Dropping it kills all of them.
pub(super) struct Cluster {
    pub(super) servers: Vec<Process>,
    pub(super) nodes: Vec<Node>,
}

/// A broker and its relays.
pub(super) struct Node {
    pub(super) name: String,
    /// The address of its MQTT listener, and that of its admin pages.
    pub(super) address: SocketAddr,
    pub(super) admin: SocketAddr,
    /// One to each NATS server, in the order in which the broker tries them.
    relays: Vec<Relay>,
    process: Process,
}

/// A program with fixed arguments, which can be started again.
pub(super) struct Process {
    command: Box<dyn Fn() -> Command + Send + Sync>,
    machine: Arc<Machine>,
    /// The listener that it has once it runs.
    address: SocketAddr,
    state: Mutex<State>,
    /// Held while it starts or ends.
    turn: Mutex<()>,
}

#[derive(Default)]
struct State {
    child: Option<Child>,
    /// Since when it has been running without an interruption.
    running: Option<Instant>,
}

impl Cluster {
    /// Starts the servers and brokers in `folder`, in turn on each of `machines`.
    pub(super) fn start(
        machines: &[Arc<Machine>],
        binary: &Path,
        folder: &Path,
        config: ClusterConfig,
    ) -> Result<Self, String> {
        let servers = servers::start(machines, folder, config.servers, config.sessions_kept)?;
        let keep_sessions_flag = config.sessions_kept.then_some("--cluster-keep-sessions");
        let node = |n| {
            let name = char::from(b'a' + n as u8).to_string();
            // Each broker tries another server first.
            let order = servers.iter().cycle().skip(n).take(servers.len());
            let order = order.map(|server: &Process| server.address);
            let machine = &machines[n % machines.len()];
            let start = |to| machine.run(|| Relay::start(machine.inner, to)).flatten();
            let relay = |to| start(to).map_err(|error| format!("no relay: {error}"));
            let relays = order.map(relay).collect::<Result<_, _>>()?;
            Node::start(machine, &name, (binary, folder), relays, keep_sessions_flag)
        };
        let nodes = (0..config.nodes).map(node).collect::<Result<_, String>>()?;
        Ok(Self { servers, nodes })
    }
}

/// An address of a machine with a free port.
pub(super) fn free(machine: &Machine, host: IpAddr) -> Result<SocketAddr, String> {
    let bind = || TcpListener::bind((host, 0)).and_then(|listener| listener.local_addr());
    let bound = machine.run(bind).flatten();
    bound.map_err(|error| format!("no free port at {host}: {error}"))
}

impl Node {
    fn start(
        machine: &Arc<Machine>,
        name: &str,
        (binary, folder): (&Path, &Path),
        relays: Vec<Relay>,
        keep_sessions_flag: Option<&'static str>,
    ) -> Result<Self, String> {
        let (address, admin) = (free(machine, machine.outer)?, free(machine, machine.outer)?);
        let (binary, data) = (binary.to_owned(), folder.join(name));
        let log = folder.join(format!("{name}.log"));
        fs::create_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
        let token = folder.join("admin-token");
        fs::write(&token, "token-of-the-clusters-of-developers\n")
            .and_then(|()| private(&token))
            .map_err(|error| format!("{}: {error}", token.display()))?;
        let node_name = name.to_owned();
        let separate = (!address.ip().is_loopback()).then_some(SEPARATE);
        let servers: Vec<_> =
            relays.iter().map(|relay| format!("nats://{}", relay.address)).collect();
        let servers = servers.join(",");
        let process = Process::new(machine, address, move || {
            let mut command = Command::new(&binary);
            command.args(["broker", "--workers", "2", "--node-name", &node_name]);
            command.arg("--listen").arg(address.to_string());
            command.arg("--admin").arg(admin.to_string());
            command.args(["--cluster", &servers]);
            command.arg("--persistence-dir").arg(&data);
            command.arg("--admin-token-file").arg(&token).args(QUEUES).args(keep_sessions_flag);
            command.args(separate.iter().flatten());
            if let Ok(file) = File::options().create(true).append(true).open(&log) {
                command.stderr(file);
            }
            command
        });
        process.start()?;
        Ok(Self { name: name.to_owned(), address, admin, relays, process })
    }

    pub(super) fn process(&self) -> &Process {
        &self.process
    }

    pub(super) fn machine(&self) -> &Machine {
        &self.process.machine
    }

    /// Sets the mode of its relays, or of that to its first server only.
    pub(super) fn set_relays(&self, mode: Mode, is_first_only: bool) {
        let count = if is_first_only { 1 } else { self.relays.len() };
        self.relays.iter().take(count).for_each(|relay| relay.set(mode));
    }
}

/// Makes a file readable by its owner only.
fn private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
}

impl Process {
    pub(super) fn new(
        machine: &Arc<Machine>,
        address: SocketAddr,
        command: impl Fn() -> Command + Send + Sync + 'static,
    ) -> Self {
        let (command, state, turn) = (Box::new(command), Mutex::default(), Mutex::default());
        Self { command, machine: machine.clone(), address, state, turn }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts it, and waits until it listens.
    pub(super) fn start(&self) -> Result<(), String> {
        let _turn = self.turn();
        while !self.try_start()? {}
        Ok(())
    }

    /// Starts it again if it has ended because another node has adopted its sessions. Returns whether it had.
    pub(super) fn start_without_sessions(&self) -> Result<bool, String> {
        let _turn = self.turn();
        let has_ended = self.state().child.as_mut().is_some_and(
            |child| matches!(child.try_wait(), Ok(Some(status)) if status.code() == Some(ADOPTED)),
        );
        while has_ended && !self.try_start()? {}
        Ok(has_ended)
    }

    /// Starts it once. Returns false if another node has adopted its sessions.
    fn try_start(&self) -> Result<bool, String> {
        self.machine.run(|| self.try_start_there()).map_err(|error| error.to_string())?
    }

    fn try_start_there(&self) -> Result<bool, String> {
        let mut command = (self.command)();
        // In a process group of its own: Ctrl-C in a terminal reaches only this program, which ends the others.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let output = child.stdout.take().map(BufReader::new);
        // A broker prints its addresses; the pipe must not fill.
        thread::spawn(move || output.map(|output| output.lines().for_each(drop)));
        let start = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            match child.try_wait() {
                Ok(Some(status)) if status.code() == Some(ADOPTED) => return Ok(false),
                Ok(Some(status)) => return Err(format!("{command:?} ended: {status}")),
                _ => (),
            }
            if start.elapsed() > LIMIT {
                let _ = child.kill();
                return Err(format!("{command:?} does not listen"));
            }
            thread::sleep(Duration::from_millis(5));
        }
        *self.state() = State { child: Some(child), running: Some(Instant::now()) };
        Ok(true)
    }

    /// Since when it has been running, unless it is stopped or killed.
    pub(super) fn running(&self) -> Option<Instant> {
        self.state().running
    }

    /// Whether the process has not ended, apart from [`kill`](Self::kill), [`end`](Self::end) and the loss of its
    /// sessions.
    pub(super) fn is_running(&self) -> bool {
        let mut state = self.state();
        state.child.as_mut().is_none_or(|child| match child.try_wait() {
            Ok(Some(status)) => status.code() == Some(ADOPTED),
            other => other.is_ok(),
        })
    }

    /// Kills it.
    pub(super) fn kill(&self) {
        let _turn = self.turn();
        let State { child, .. } = std::mem::take(&mut *self.state());
        if let Some(mut child) = child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Asks it to end, and waits.
    pub(super) fn end(&self) -> Result<(), String> {
        let _turn = self.turn();
        self.signal("TERM");
        let State { child, .. } = std::mem::take(&mut *self.state());
        let Some(mut child) = child else { return Ok(()) };
        let start = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() || status.code() == Some(ADOPTED) => {
                    return Ok(());
                }
                Ok(Some(status)) => return Err(format!("a process ended: {status}")),
                Err(error) => return Err(format!("a process cannot be awaited: {error}")),
                Ok(None) if start.elapsed() > LIMIT => {
                    let _ = child.kill();
                    return Err("a process does not end".into());
                }
                Ok(None) => thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// Stops all its threads.
    pub(super) fn stop(&self) {
        self.state().running = None;
        self.signal("STOP");
    }

    /// Lets them continue.
    pub(super) fn resume(&self) {
        self.signal("CONT");
        self.state().running = Some(Instant::now());
    }

    fn signal(&self, name: &str) {
        let state = self.state();
        if let Some(child) = &state.child {
            let _ = Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Cluster {
    /// Kills all.
    pub(super) fn kill(&self) {
        self.nodes.iter().for_each(|node| node.process.kill());
        self.servers.iter().for_each(Process::kill);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.iter().for_each(|node| node.set_relays(Mode::Ended, false));
    }
}
