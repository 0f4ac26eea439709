//! Other servers on the same files, for comparison.

use std::fs::{self, File, Permissions};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use phalanx_testkit::tcp::unique_loopback;

use crate::conformance::tree::Tree;

/// The servers that [`Peer::start`] supports.
pub(crate) const PEERS: [&str; 5] = ["nginx", "lighttpd", "h2o", "apache2", "caddy"];

/// Timeout for a server to start.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// A running server, killed when dropped.
pub(crate) struct Peer {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Peer {
    /// Starts a server on the files of `tree`. `None`, with a message, if it is not installed.
    pub(crate) fn start(name: &'static str, tree: &Tree) -> Option<Self> {
        let directory = tree.outside().join(name);
        fs::create_dir_all(&directory).expect("a directory for a peer");
        // They may run as another user.
        for path in [tree.outside(), &directory] {
            fs::set_permissions(path, Permissions::from_mode(0o777)).expect("its permissions");
        }
        let free = TcpListener::bind((unique_loopback(), 0)).expect("a free port");
        let address = free.local_addr().expect("its address");
        drop(free);
        let mut command = command(name, &directory, &tree.root(), address);
        let log = File::create(directory.join("log")).expect("a log");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        let Ok(child) = command.spawn() else {
            println!("!!! SKIPPED: {name}, which is not installed");
            return None;
        };
        let (mut peer, started) = (Self { child, address }, Instant::now());
        while TcpStream::connect(address).is_err() {
            let status = peer.child.try_wait().expect("its state");
            if status.is_some() || started.elapsed() > START_TIMEOUT {
                let log = fs::read_to_string(directory.join("log")).unwrap_or_default();
                println!("!!! SKIPPED: {name}, which does not come up ({status:?}): {log}");
                return None;
            }
            thread::sleep(Duration::from_millis(20));
        }
        Some(peer)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command that runs a server in the foreground, in one process if possible.
fn command(name: &str, directory: &Path, root: &Path, address: SocketAddr) -> Command {
    let (ip, port) = (address.ip(), address.port());
    let (dir, root) = (directory.display(), root.display());
    let file = directory.join("conf");
    let write = |text: String| fs::write(&file, text).expect("a configuration");
    let mut command;
    match name {
        "nginx" => {
            write(format!(
                "daemon off;\nmaster_process off;\npid {dir}/pid;\nerror_log {dir}/errors;\n\
                 events {{}}\nhttp {{\n  types {{ text/html html; text/plain txt; }}\n\
                 access_log off;\n  client_body_temp_path {dir}/b;\n  proxy_temp_path {dir}/p;\n\
                 fastcgi_temp_path {dir}/f;\n  uwsgi_temp_path {dir}/u;\n  scgi_temp_path {dir}/s;\n\
                 server {{ listen {address}; root {root}; index index.html; }}\n}}\n"
            ));
            command = Command::new("/usr/sbin/nginx");
            command.arg("-c").arg(&file).arg("-e").arg(directory.join("errors"));
        }
        "lighttpd" => {
            write(format!(
                "server.bind = \"{ip}\"\nserver.port = {port}\n\
                 server.document-root = \"{root}\"\nindex-file.names = (\"index.html\")\n\
                 mimetype.assign = (\".html\" => \"text/html\", \".txt\" => \"text/plain\", \
                 \"\" => \"application/octet-stream\")\n"
            ));
            command = Command::new("/usr/sbin/lighttpd");
            command.arg("-D").arg("-f").arg(&file);
        }
        "h2o" => {
            write(format!(
                "user: root\nnum-threads: 1\nlisten:\n  host: {ip}\n  port: {port}\n\
                 hosts:\n  default:\n    paths:\n      \"/\":\n        file.dir: {root}\n"
            ));
            command = Command::new("/usr/bin/h2o");
            command.arg("-c").arg(&file);
        }
        "apache2" => {
            let modules = "/usr/lib/apache2/modules";
            let load: String = ["mpm_event", "authz_core", "dir", "mime"]
                .map(|name| format!("LoadModule {name}_module {modules}/mod_{name}.so\n"))
                .concat();
            write(format!(
                "{load}ServerRoot {dir}\nServerName a\nTraceEnable off\nListen {address}\nPidFile {dir}/pid\n\
                 ErrorLog {dir}/errors\nDocumentRoot {root}\nDirectoryIndex index.html\n\
                 TypesConfig /dev/null\nAddType text/html .html\nAddType text/plain .txt\n\
                 User www-data\nGroup www-data\n<Directory {root}>\n  Require all granted\n</Directory>\n"
            ));
            command = Command::new("/usr/sbin/apache2");
            command.arg("-X").arg("-f").arg(&file);
        }
        _ => {
            command = Command::new("/usr/bin/caddy");
            command.args(["file-server", "--listen"]).arg(address.to_string());
            command.arg("--root").arg(root.to_string()).env("HOME", directory);
        }
    }
    command
}
