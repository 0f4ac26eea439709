//! A broker under measurement: a process that is started, and killed in the end.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Options;
use crate::web::server::{Group, ReservedPort};
use crate::web::{Error, cores, interrupted};

/// How long a broker may take to come up.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

/// A broker that is up.
pub(super) struct Server {
    pub(super) name: &'static str,
    /// Whether what it acknowledges is on the disk.
    pub(super) keeps: bool,
    pub(super) address: SocketAddr,
    /// Its processes.
    pub(super) family: Vec<u32>,
    _group: Group,
}

/// `phalanx broker` on one processor: all in memory, or with a directory to keep it in.
pub(super) fn phalanx(
    options: &Options,
    keeps: bool,
    core: usize,
    directory: &Path,
) -> Result<Server, Error> {
    let path = match &options.place.phalanx {
        Some(path) => path.clone(),
        None => std::env::current_exe().map_err(Error::Io)?,
    };
    let mut command = Command::new(path);
    command.args(["broker", "--listen", "127.0.0.1:0", "--processors", "1"]);
    command.args(["--driver", &options.driver]);
    let name = if keeps {
        command.arg("--data").arg(directory.join("data"));
        "phalanx-kept"
    } else {
        command.arg("--ephemeral");
        "phalanx"
    };
    Ok(Server { keeps, ..start(name, command, None, core, directory)? })
}

/// mosquitto in both its ways, with nothing that it could do without; none where it is not installed.
///
/// It sends each message by itself. With Nagle's algorithm the kernel makes larger segments of them, which costs
/// less where there are many; without, one that is alone is not held back.
pub(super) fn mosquitto(core: usize, directory: &Path) -> Result<Vec<Server>, Error> {
    let Some(path) = find_mosquitto() else { return Ok(Vec::new()) };
    let start = |(name, nodelay): (&'static str, bool)| {
        let port = ReservedPort::take().map_err(Error::Io)?;
        let configuration = directory.join(format!("{name}.conf"));
        let text = format!(
            "listener {} 127.0.0.1\nallow_anonymous true\npersistence false\nlog_type none\n\
             max_queued_messages 0\nmax_inflight_messages 0\nset_tcp_nodelay {nodelay}\nsys_interval 0\n",
            port.number()
        );
        fs::write(&configuration, text).map_err(Error::Io)?;
        let mut command = Command::new(&path);
        command.arg("-c").arg(configuration);
        start(name, command, Some(port), core, directory)
    };
    [("mosquitto", true), ("mosquitto-nagle", false)].into_iter().map(start).collect()
}

fn find_mosquitto() -> Option<PathBuf> {
    // Not every user has sbin in the search path.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join("mosquitto")).find(|path| path.is_file())
}

/// mosquitto's version, if it is here.
pub(super) fn mosquitto_version() -> Option<String> {
    let output = Command::new(find_mosquitto()?).arg("-h").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

fn start(
    name: &'static str,
    mut command: Command,
    port: Option<ReservedPort>,
    core: usize,
    directory: &Path,
) -> Result<Server, Error> {
    use std::os::unix::process::CommandExt;
    let out = directory.join(format!("{name}.out"));
    let errors = directory.join(format!("{name}.err"));
    let failed = |why: String| Error::Server { name: name.to_owned(), why };
    let create = |path: &PathBuf| File::create(path).map_err(Error::Io);
    command.process_group(0).stdin(Stdio::null()).stdout(create(&out)?).stderr(create(&errors)?);
    let port = port.map(ReservedPort::give_up);
    let child = cores::spawn(core, &mut command)
        .map_err(|error| failed(format!("{}: {error}", command.get_program().display())))?;
    let mut group = Group(child);
    let deadline = Instant::now() + PATIENCE;
    loop {
        interrupted()?;
        let address = match port {
            Some(port) => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
            None => announced(&fs::read_to_string(&out).unwrap_or_default()),
        };
        if let Some(address) = address
            && TcpStream::connect_timeout(&address, PATIENCE).is_ok()
        {
            let family = crate::procfs::family(group.0.id()).map_err(Error::Io)?;
            return Ok(Server { name, keeps: false, address, family, _group: group });
        }
        let ended = group.0.try_wait().map_err(Error::Io)?;
        if ended.is_some() || Instant::now() > deadline {
            let why = match ended {
                Some(status) => format!("it has ended: {status}"),
                None => "it does not listen".to_owned(),
            };
            let said = fs::read_to_string(&errors).unwrap_or_default();
            return Err(failed(format!("{why} {}", said.trim())));
        }
        std::thread::sleep(PAUSE);
    }
}

/// What `listening on mqtt://ADDRESS` in a broker's output says.
fn announced(output: &str) -> Option<SocketAddr> {
    let line = output.lines().find_map(|line| line.strip_prefix("listening on mqtt://"))?;
    // A line that is still being written has no end yet.
    output.ends_with('\n').then(|| line.trim().parse().ok())?
}
