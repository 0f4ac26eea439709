//! The servers: how each is started, and the request that it answers.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::system::cachegrind;
use crate::system::process::{Process, ReservedPort, listens};

/// A server of `tools/stingy/examples/servers`.
pub(super) struct Server {
    pub(super) name: &'static str,
    /// Its program, relative to its folder.
    program: &'static str,
    /// The program for valgrind, if it is another.
    debug: Option<&'static str>,
    /// Sent once.
    pub(super) prepare: Option<&'static [u8]>,
    pub(super) request: &'static [u8],
}

pub(super) const SERVERS: [Server; 3] = [
    Server {
        name: "lighttpd",
        program: "src/lighttpd",
        debug: None,
        prepare: None,
        request: b"GET /file HTTP/1.1\r\nHost: localhost\r\n\r\n",
    },
    Server {
        name: "memcached",
        program: "memcached",
        // The other exits where valgrind refuses to raise a limit.
        debug: Some("memcached-debug"),
        prepare: Some(b"set key 0 0 20\r\n01234567890123456789\r\n"),
        request: b"get key\r\n",
    },
    Server {
        name: "redis",
        program: "src/redis-server",
        debug: None,
        prepare: Some(b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$20\r\n01234567890123456789\r\n"),
        request: b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n",
    },
];

/// Connections that a server must accept besides the measured ones.
const SPARE: usize = 100;

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
    let program = folder.join(program);
    let port = ReservedPort::take()?;
    let number = port.number().to_string();
    let room = (connections + SPARE).to_string();
    let mut command = if traced { cachegrind::command(&program) } else { Command::new(&program) };
    match server.name {
        "lighttpd" => {
            let file = configuration(directory, &number, connections + SPARE)?;
            command.arg("-D").arg("-f").arg(file);
        }
        "memcached" => {
            command.args(["-u", "root", "-t", "1", "-U", "0", "-l", "127.0.0.1"]);
            command.args(["-p", &number, "-c", &room]);
        }
        _ => {
            command.args(["--port", &number, "--maxclients", &room, "--bind", "127.0.0.1"]);
            command.args(["--save", "", "--appendonly", "no", "--daemonize", "no"]);
            command.arg("--dir").arg(directory);
        }
    }
    let name = format!("{}-{number}", server.name);
    Process::start(&name, command, Some(port), cores, directory, listens)
}

/// The configuration of lighttpd: one small file.
fn configuration(directory: &Path, port: &str, connections: usize) -> std::io::Result<PathBuf> {
    let root = directory.join("root");
    std::fs::create_dir_all(&root)?;
    std::fs::write(root.join("file"), [b'x'; 1024])?;
    let text = format!(
        "server.document-root = \"{}\"\nserver.bind = \"127.0.0.1\"\nserver.port = {port}\n\
         server.max-connections = {connections}\nserver.max-fds = {}\n\
         server.max-keep-alive-requests = 1000000000\nserver.max-keep-alive-idle = 3600\n",
        root.display(),
        connections + SPARE,
    );
    let path = directory.join(format!("lighttpd-{port}.conf"));
    std::fs::write(&path, text)?;
    Ok(path)
}
