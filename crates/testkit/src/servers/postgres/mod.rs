//! A temporary PostgreSQL server; its [messages], for scripted servers.

pub mod messages;

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tempfile::TempDir;

/// Starts and stops the server as its standard input demands, and removes the folder at the end of the input. So the
/// server ends with the process that has started it, however that ends.
const SUPERVISOR: &str = include_str!("supervisor.sh");

/// A PostgreSQL server in a temporary folder, reached by a Unix socket. It ends, and the folder is removed, when it is
/// dropped or the process ends.
///
/// The user is `postgres`, who needs no password. Users with the names `scram`, `md5` and `password` authenticate by the
/// method of that name.
#[derive(Debug)]
pub struct PostgresServer {
    supervisor: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    folder: TempDir,
}

impl PostgresServer {
    /// Creates and starts a server with these settings, such as `fsync=off`. Returns `None` if PostgreSQL is not
    /// installed: neither a `postgres` in `PATH`, nor a folder `/usr/lib/postgresql/…/bin`.
    ///
    /// PostgreSQL refuses to run as root. In a process of root the server runs as the user `postgres`, or `nobody`.
    ///
    /// # Errors
    /// If the server does not start, with the end of its log.
    pub fn start(settings: &[&str]) -> io::Result<Option<Self>> {
        Self::start_with(settings, &[])
    }

    /// Like [`start`](Self::start), with TLS on a free TCP port of this address. It accepts TCP connections only if they
    /// are encrypted. Its [`socket`](Self::socket) has another name.
    ///
    /// # Errors
    /// Like [`start`](Self::start).
    pub fn start_tls(
        settings: &[&str],
        (certificate, key): (&Path, &Path),
    ) -> io::Result<Option<(Self, SocketAddr)>> {
        const ATTEMPTS: usize = 5;
        let files = [("ssl_cert_file", certificate), ("ssl_key_file", key)];
        let mut attempt = 1;
        loop {
            let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
            let port = format!("port = {}", address.port());
            let own = ["listen_addresses = '127.0.0.1'", &port, "ssl = on"];
            match Self::start_with(&[settings, &own].concat(), &files) {
                // Another program may have taken the port.
                Err(_) if attempt < ATTEMPTS => attempt += 1,
                started => return Ok(started?.map(|server| (server, address))),
            }
        }
    }

    fn start_with(settings: &[&str], files: &[(&str, &Path)]) -> io::Result<Option<Self>> {
        let Some(programs) = find_programs() else { return Ok(None) };
        let folder = tempfile::Builder::new().prefix("phalanx-postgres-").tempdir()?;
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(SUPERVISOR).arg("sh").arg(&programs).arg(folder.path());
        let mut owned = vec![folder.path().to_owned()];
        for (setting, file) in files {
            let path = folder.path().join(setting);
            fs::copy(file, &path)?;
            // PostgreSQL refuses a key that others can read.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
            command.arg(format!("{setting} = '{}'", path.display()));
            owned.push(path);
        }
        command.args(settings).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.current_dir(folder.path()).process_group(0);
        if rustix::process::getuid().is_root() {
            let (user, group) = unprivileged_user()?;
            owned.iter().try_for_each(|path| chown(path, Some(user), Some(group)))?;
            command.uid(user).gid(group);
        }
        let mut supervisor = command.spawn()?;
        let commands = supervisor.stdin.take();
        let answers = BufReader::new(supervisor.stdout.take().expect("piped above"));
        let mut server = Self { supervisor, commands, answers, folder };
        server.wait_for_answer()?;
        Ok(Some(server))
    }

    /// The path of the Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join(".s.PGSQL.5432")
    }

    /// The number of its first process, whose children are the others.
    ///
    /// # Errors
    /// If the server does not run.
    pub fn process(&self) -> io::Result<u32> {
        let file = fs::read_to_string(self.folder.path().join("data/postmaster.pid"))?;
        let number = file.lines().next().and_then(|line| line.trim().parse().ok());
        number.ok_or_else(|| io::Error::other("postmaster.pid has no number"))
    }

    /// Stops the server and starts it again. Its connections are closed with an error of the server.
    ///
    /// # Errors
    /// If the server does not start, with the end of its log.
    pub fn restart(&mut self) -> io::Result<()> {
        self.stop()?;
        self.resume()
    }

    /// Stops the server. [`resume`](Self::resume) starts it again.
    ///
    /// # Errors
    /// If the server does not stop.
    pub fn stop(&mut self) -> io::Result<()> {
        self.command("stop")
    }

    /// Ends the server like a crash. [`resume`](Self::resume) starts it again.
    ///
    /// # Errors
    /// If the server does not end.
    pub fn crash(&mut self) -> io::Result<()> {
        self.command("crash")
    }

    /// Starts the server after it was stopped.
    ///
    /// # Errors
    /// If the server does not start, with the end of its log.
    pub fn resume(&mut self) -> io::Result<()> {
        self.command("start")
    }

    fn command(&mut self, name: &str) -> io::Result<()> {
        let commands = self.commands.as_mut().expect("open until it is dropped");
        writeln!(commands, "{name}")?;
        self.wait_for_answer()
    }

    fn wait_for_answer(&mut self) -> io::Result<()> {
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        if answer.trim() == "ok" {
            return Ok(());
        }
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let last: Vec<_> = log.lines().rev().take(10).collect();
        let last = last.into_iter().rev().collect::<Vec<_>>().join("\n");
        Err(io::Error::other(format!(
            "PostgreSQL did not start or stop; its log ends with:\n{last}"
        )))
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        drop(self.commands.take());
        let _ = self.supervisor.wait();
    }
}

/// Whether PostgreSQL is installed.
pub fn is_installed() -> bool {
    find_programs().is_some()
}

/// The folder of PostgreSQL's programs.
fn find_programs() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    // A link in `PATH` leads to the folder with the other programs.
    let linked = env::split_paths(&path).filter_map(|folder| {
        Some(folder.join("postgres").canonicalize().ok()?.parent()?.to_owned())
    });
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let installed = installed.filter_map(|version| Some(version.ok()?.path().join("bin")));
    linked.chain(installed).find(|folder| has_programs(folder))
}

fn has_programs(folder: &Path) -> bool {
    ["postgres", "initdb", "pg_ctl"].iter().all(|program| folder.join(program).exists())
}

/// The numbers of a user other than root, and of its group.
fn unprivileged_user() -> io::Result<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd")?;
    let numbers = |name: &str| {
        let mut fields = users
            .lines()
            .map(|line| line.split(':'))
            .find(|fields| fields.clone().next() == Some(name))?;
        Some((fields.nth(2)?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    let found = numbers("postgres").or_else(|| numbers("nobody"));
    found.ok_or_else(|| io::Error::other("/etc/passwd has neither the user postgres nor nobody"))
}
