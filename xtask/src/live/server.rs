//! A server process and its externally visible state.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

/// Timeout of each answer, longer than any takes on a loaded machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// A running server; killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Serves `root` with additional arguments.
    pub(crate) fn start(binary: &Path, root: &Path, arguments: &[&str]) -> io::Result<Self> {
        Self::start_by(Command::new(binary), root, arguments)
    }

    /// Like [`Server::start`], with a command of the caller, to which `web` and the arguments are appended.
    pub(crate) fn start_by(
        mut command: Command,
        root: &Path,
        arguments: &[&str],
    ) -> io::Result<Self> {
        let mut child = command
            .arg("web")
            .arg(root)
            .args(["--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        let read = BufReader::new(stdout).read_line(&mut line);
        let address = line.trim().strip_prefix("listening on http://").map(str::parse);
        let Some(Ok(address)) = address else {
            let _ = child.kill();
            let _ = child.wait();
            read?;
            return Err(io::Error::other(format!(
                "expected a listening address, read `{}`",
                line.trim()
            )));
        };
        Ok(Self { child, address })
    }

    /// Its standard error, if the command pipes it.
    pub(crate) fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process is running.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, name: &str) -> io::Result<()> {
        let id = self.id().to_string();
        Command::new("kill").args(["-s", name, &id]).status().map(drop)
    }

    /// Sends SIGTERM and waits. Returns whether it exited with status 0.
    pub(crate) fn end(mut self) -> io::Result<bool> {
        self.signal("TERM")?;
        Ok(self.child.wait()?.success())
    }

    /// Waits until all threads sleep.
    ///
    /// # Errors
    /// When they do not within the timeout, or the process has exited.
    pub(crate) fn asleep(&self) -> io::Result<()> {
        let start = std::time::Instant::now();
        while start.elapsed() < TIMEOUT {
            let mut sleeping = true;
            for task in fs::read_dir(format!("/proc/{}/task", self.id()))? {
                // A thread that has exited meanwhile is not running either.
                let stat = fs::read_to_string(task?.path().join("stat")).unwrap_or_default();
                // The state follows the name, which may contain any character.
                let state =
                    stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
                sleeping &= state.is_none_or(|state| state == 'S');
            }
            if sleeping {
                return Ok(());
            }
            std::thread::yield_now();
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "its threads do not sleep"))
    }

    /// Resident anonymous memory, in bytes.
    pub(crate) fn memory(&self) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        number.map(|kib| kib << 10).ok_or_else(|| io::Error::other("no RssAnon in /proc"))
    }

    /// Number of open descriptors.
    pub(crate) fn descriptors(&self) -> io::Result<usize> {
        Ok(fs::read_dir(format!("/proc/{}/fd", self.id()))?.count())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection and the received bytes of the next answer.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    bytes: Vec<u8>,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Status line and header fields.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Client {
    /// Connects with a read timeout.
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, bytes: Vec::new() })
    }

    /// Sends a GET and reads the whole answer.
    pub(crate) fn get(&mut self, path: &str) -> io::Result<Answer> {
        // In a single write, as clients do.
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        self.stream.write_all(request.as_bytes())?;
        self.answer()
    }

    /// Reads one answer.
    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        let bad = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason.to_owned());
        let head = loop {
            if let Some(end) = self.bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
            self.more()?;
        };
        let rest = self.bytes.split_off(head);
        let head = std::mem::replace(&mut self.bytes, rest);
        let head = String::from_utf8(head).map_err(|_| bad("a head that is not UTF-8"))?;
        let status = head.get(9..12).and_then(|digits| digits.parse().ok());
        let status = status.ok_or_else(|| bad("no status"))?;
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let length = length.and_then(|length| length.parse().ok());
        let length = length.ok_or_else(|| bad("no length"))?;
        while self.bytes.len() < length {
            self.more()?;
        }
        let rest = self.bytes.split_off(length);
        Ok(Answer { status, head, body: std::mem::replace(&mut self.bytes, rest) })
    }

    fn more(&mut self) -> io::Result<()> {
        let mut piece = [0; 16 * 1024];
        let count = loop {
            match self.stream.read(&mut piece) {
                // The system call was interrupted, for example by a suspend of the machine.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                count => break count?,
            }
        };
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.bytes.extend_from_slice(&piece[..count]);
        Ok(())
    }
}
