//! A server of the real program, and what can be seen of it from outside.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

/// Longer than any answer takes on a loaded machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// A server that is up; killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Serves `root` with more arguments.
    pub(crate) fn start(binary: &Path, root: &Path, arguments: &[&str]) -> io::Result<Self> {
        Self::start_by(Command::new(binary), root, arguments)
    }

    /// The same by a command of the caller's, to which `web` and the arguments are added.
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
            return Err(io::Error::other(format!("it is not ready, but says `{}`", line.trim())));
        };
        Ok(Self { child, address })
    }

    /// What it says on stderr, if the command has a pipe there.
    pub(crate) fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it runs still.
    pub(crate) fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends it a signal, by its name.
    pub(crate) fn signal(&self, name: &str) -> io::Result<()> {
        let id = self.id().to_string();
        Command::new("kill").args(["-s", name, &id]).status().map(drop)
    }

    /// Asks it to end and waits for it. Whether it ended well.
    pub(crate) fn end(mut self) -> io::Result<bool> {
        self.signal("TERM")?;
        Ok(self.child.wait()?.success())
    }

    /// Waits until all its threads sleep.
    ///
    /// # Errors
    /// When they never do, or it has ended.
    pub(crate) fn asleep(&self) -> io::Result<()> {
        let begun = std::time::Instant::now();
        while begun.elapsed() < TIMEOUT {
            let mut sleeping = true;
            for task in fs::read_dir(format!("/proc/{}/task", self.id()))? {
                // One that ends meanwhile does not run either.
                let stat = fs::read_to_string(task?.path().join("stat")).unwrap_or_default();
                // The state is behind the name, which may hold anything.
                let state =
                    stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
                sleeping &= state.is_none_or(|state| state == 'S');
            }
            if sleeping {
                return Ok(());
            }
            std::thread::yield_now();
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "it does not come to rest"))
    }

    /// Bytes of memory it has resident, without those of files.
    pub(crate) fn memory(&self) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        number.map(|kib| kib << 10).ok_or_else(|| io::Error::other("no RssAnon in /proc"))
    }

    /// Descriptors it has open.
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

/// A connection, with what has come of the next answer already.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    bytes: Vec<u8>,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Status line and fields.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Client {
    /// Connects. It waits for nothing for ever.
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, bytes: Vec::new() })
    }

    /// Asks, and reads the answer to its end.
    pub(crate) fn get(&mut self, path: &str) -> io::Result<Answer> {
        // In one piece, as clients send it.
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        self.stream.write_all(request.as_bytes())?;
        self.answer()
    }

    /// Reads one answer.
    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
        let head = loop {
            if let Some(end) = self.bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
            self.more()?;
        };
        let rest = self.bytes.split_off(head);
        let head = std::mem::replace(&mut self.bytes, rest);
        let head = String::from_utf8(head).map_err(|_| bad("a head that is no text"))?;
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
                // A machine that was put to sleep for a moment.
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
