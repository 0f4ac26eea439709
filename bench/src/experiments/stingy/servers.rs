//! The servers: how each is started, and the request that it answers.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::load::exchange::Query;
use crate::system::{Process, ReservedPort, cachegrind, listens};

/// A server of `tools/stingy/examples/servers`.
pub(super) struct Server {
    pub(super) name: &'static str,
    /// Its program, relative to its folder.
    program: &'static str,
    /// The program for valgrind, if it is another.
    debug: Option<&'static str>,
    /// Sent once.
    pub(super) prepare: Option<Query>,
    pub(super) query: Query,
    /// Requests after which a connection is replaced, if the server has a maximum.
    pub(super) most: Option<usize>,
    /// Requests that stop and resume periodic work. Under valgrind a request takes many times as long, so that such work
    /// would count many times per request.
    pub(super) pause: Option<[Query; 2]>,
}

/// Requests of a connection that lighttpd answers: the largest number that its configuration can have.
const MAX_REQUESTS: usize = 65_535;

pub(super) const SERVERS: [Server; 3] = [
    Server {
        name: "lighttpd",
        program: "src/lighttpd",
        debug: None,
        prepare: None,
        query: Query {
            request: b"GET /file HTTP/1.1\r\nHost: localhost\r\n\r\n",
            reply: b"HTTP/1.1 200 OK\r\n",
        },
        // The last reply has another field, and so another length.
        most: Some(MAX_REQUESTS - 1),
        pause: None,
    },
    Server {
        name: "memcached",
        program: "memcached",
        // The other exits where valgrind refuses to raise a limit.
        debug: Some("memcached-debug"),
        prepare: Some(Query {
            request: b"set key 0 0 20\r\n01234567890123456789\r\n",
            reply: b"STORED\r\n",
        }),
        query: Query { request: b"get key\r\n", reply: b"VALUE key 0 20\r\n" },
        most: None,
        pause: None,
    },
    Server {
        name: "redis",
        program: "src/redis-server",
        debug: None,
        prepare: Some(Query {
            request: b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$20\r\n01234567890123456789\r\n",
            reply: b"+OK\r\n",
        }),
        query: Query { request: b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n", reply: b"$20\r\n" },
        most: None,
        pause: Some([
            Query {
                request: b"*3\r\n$5\r\nDEBUG\r\n$10\r\nPAUSE-CRON\r\n$1\r\n1\r\n",
                reply: b"+OK\r\n",
            },
            Query {
                request: b"*3\r\n$5\r\nDEBUG\r\n$10\r\nPAUSE-CRON\r\n$1\r\n0\r\n",
                reply: b"+OK\r\n",
            },
        ]),
    },
];

/// Connections that a server must accept in addition to the measured ones.
const SPARE: usize = 100;
/// Size of the heap of a server under valgrind, of which only what it uses is memory.
const HEAP_BYTES: usize = 1 << 30;

/// A process of a server on `cores`, with room for `connections`. `traced` runs it under cachegrind.
pub(super) fn start(
    server: &Server,
    folder: &Path,
    connections: usize,
    traced: bool,
    cores: &[usize],
    directory: &Path,
) -> Result<Process, Error> {
    let program = server.debug.filter(|_| traced).unwrap_or(server.program);
    let port = ReservedPort::take()?;
    let number = port.number().to_string();
    let command = command(server, &folder.join(program), connections, traced, &number, directory)?;
    let name = format!("{}-{number}", server.name);
    Process::start(&name, command, Some(port), cores, directory, listens)
}

fn command(
    server: &Server,
    program: &Path,
    connections: usize,
    traced: bool,
    port: &str,
    directory: &Path,
) -> io::Result<Command> {
    let room = (connections + SPARE).to_string();
    let mut command = if traced { cachegrind::command(program) } else { Command::new(program) };
    if traced {
        // The budget is that of the simulated cache, not of the machine's.
        command.env("STINGY_L2", cachegrind::L2.to_string());
        // valgrind limits brk, after which malloc takes 1 MiB at a time, each with the same offsets modulo the sets of the
        // cache. One large piece has the layout of a heap.
        command.env("MALLOC_TOP_PAD_", HEAP_BYTES.to_string());
    }
    match server.name {
        "lighttpd" => {
            let file = configuration(directory, port, connections + SPARE)?;
            command.arg("-D").arg("-f").arg(file);
        }
        "memcached" => {
            command.args(["-u", "root", "-t", "1", "-U", "0", "-l", "127.0.0.1"]);
            command.args(["-p", port, "-c", &room]);
        }
        _ => {
            command.args(["--port", port, "--maxclients", &room, "--bind", "127.0.0.1"]);
            command.args(["--save", "", "--appendonly", "no", "--daemonize", "no"]);
            command.arg("--dir").arg(directory);
            if traced {
                command.args(["--enable-debug-command", "local"]);
            }
        }
    }
    Ok(command)
}

/// The configuration of lighttpd: one small file. It accepts half as many connections as it may open files.
fn configuration(directory: &Path, port: &str, connections: usize) -> io::Result<PathBuf> {
    let root = directory.join("root");
    std::fs::create_dir_all(&root)?;
    std::fs::write(root.join("file"), [b'x'; 1024])?;
    let text = format!(
        "server.document-root = \"{}\"\nserver.bind = \"127.0.0.1\"\nserver.port = {port}\n\
         server.max-connections = {connections}\nserver.max-fds = {}\n\
         server.max-keep-alive-requests = {MAX_REQUESTS}\nserver.max-keep-alive-idle = 3600\n",
        root.display(),
        2 * connections,
    );
    let path = directory.join(format!("lighttpd-{port}.conf"));
    std::fs::write(&path, text)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_simulation_has_the_budget_of_its_cache_and_one_heap() {
        for server in &SERVERS {
            let folder = tempfile::tempdir().unwrap();
            let variable = |wanted: &str, traced| {
                let command =
                    command(server, Path::new("server"), 64, traced, "1", folder.path()).unwrap();
                let mut set = command.get_envs().filter(|(name, _)| *name == OsStr::new(wanted));
                set.find_map(|(_, value)| value?.to_str()?.parse().ok())
            };
            for (name, value) in [("STINGY_L2", cachegrind::L2), ("MALLOC_TOP_PAD_", HEAP_BYTES)] {
                assert_eq!(variable(name, true), Some(value), "{}", server.name);
                assert_eq!(variable(name, false), None::<usize>, "{}", server.name);
            }
        }
    }

    #[test]
    fn lighttpd_may_open_two_files_for_each_connection() {
        let folder = tempfile::tempdir().unwrap();
        let file = configuration(folder.path(), "1", 9900).unwrap();
        let text = std::fs::read_to_string(file).unwrap();
        let number = |key: &str| -> usize {
            text.lines().find_map(|line| line.strip_prefix(key)).unwrap().parse().unwrap()
        };
        assert_eq!(number("server.max-connections = "), 9900);
        // It would reduce the number of connections to half of the files.
        assert!(number("server.max-fds = ") >= 2 * 9900);
    }

    #[test]
    fn the_maximum_of_requests_fits_its_field() {
        let folder = tempfile::tempdir().unwrap();
        let file = configuration(folder.path(), "1", 64).unwrap();
        let text = std::fs::read_to_string(file).unwrap();
        let most =
            text.lines().find_map(|line| line.strip_prefix("server.max-keep-alive-requests = "));
        // lighttpd keeps the lowest 16 bits of a larger number.
        let most: u16 = most.unwrap().parse().unwrap();
        assert!(SERVERS[0].most.is_some_and(|replaced| replaced < usize::from(most)));
    }

    #[test]
    fn requests_that_pause_periodic_work_are_permitted_in_simulations() {
        let folder = tempfile::tempdir().unwrap();
        for server in SERVERS.iter().filter(|server| server.pause.is_some()) {
            let arguments = |traced| {
                let command =
                    command(server, Path::new("server"), 64, traced, "1", folder.path()).unwrap();
                command.get_args().map(OsStr::to_owned).collect::<Vec<_>>()
            };
            let is_permitted =
                |traced| arguments(traced).contains(&"--enable-debug-command".into());
            assert!(is_permitted(true) && !is_permitted(false));
        }
    }
}
