//! Socket activation by systemd: listening sockets inherited at start.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use phalanx_testkit::authority::Authority;
use phalanx_testkit::eventually;
use phalanx_testkit::http::{Client, get};
use phalanx_testkit::process::{curl, curl_output};
use phalanx_testkit::site::Site;
use phalanx_testkit::tcp::unique_loopback;
use rustix::process::Signal;

use crate::on_each_driver;
use crate::server::{Server, bare};

on_each_driver!(an_inherited_socket_is_used, the_name_selects_the_protocol, over_a_reload);

/// Passes its standard input as descriptor 3 and executes the server in the same process, as systemd does.
const HAND_OVER: &str = "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"";

/// The server with these arguments, started by a shell that passes `socket` under `name`.
fn hand_over(socket: impl Into<OwnedFd>, name: &str, arguments: &[&str]) -> (Command, Stdio) {
    let server = bare();
    let mut command = Command::new("sh");
    command.args(["-c", HAND_OVER, "sh"]).arg(server.get_program()).arg("web").args(arguments);
    for (variable, _) in server.get_envs() {
        command.env_remove(variable);
    }
    command.env("LISTEN_FDNAMES", name);
    (command, Stdio::from(socket.into()))
}

fn bound() -> (TcpListener, SocketAddr) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn site() -> Site {
    let site = Site::new();
    site.file("file", "content");
    site
}

fn an_inherited_socket_is_used(driver: &'static str) {
    let site = site();
    let (socket, address) = bound();
    // A client that connects before the server starts waits for it.
    let mut early = Client::connect(address);
    early.send("GET /file HTTP/1.1\r\nHost: h\r\n\r\n");
    let root = site.root();
    let arguments = [root.to_str().unwrap(), "--driver", driver, "--workers", "2"];
    // Inherited sockets replace all other addresses.
    let arguments = [&arguments[..], &["--listen", "127.0.0.1:1"]].concat();
    let (command, stdin) = hand_over(socket, "web", &arguments);
    let mut server = Server::launch_with(command, stdin);
    assert_eq!(server.address, address);
    assert_eq!(early.response().body, b"content");
    for _ in 0..20 {
        assert_eq!(get(address, "/file").body, b"content");
    }
    server.signal(Signal::TERM);
    server.expect_success();
}

fn the_name_selects_the_protocol(driver: &'static str) {
    let (site, authority) = (site(), Authority::new());
    let pair = authority.sign("a", &["a.test"]);
    let [_, certificate, _, key] = pair.arguments();
    let file = site.outside().join("web.toml");
    let tls = format!(
        "[host]\nroot = 'root'\ntls = {{ certificate = {certificate:?}, key = {key:?} }}\n"
    );
    fs::write(&file, tls).unwrap();
    let arguments = ["--driver", driver, "--config", file.to_str().unwrap()];
    let (socket, address) = bound();
    let (command, stdin) = hand_over(socket, "https", &arguments);
    let server = Server::launch_with(command, stdin);
    assert_eq!(server.address, address);
    let resolve = format!("a.test:{}:127.0.0.1", address.port());
    let url = format!("https://a.test:{}/file", address.port());
    let ca = authority.certificate();
    let output = curl(&["--cacert", ca.to_str().unwrap(), "--resolve", &resolve, &url]);
    assert_eq!(output.stdout, b"content", "{}", String::from_utf8_lossy(&output.stderr));
    // Another name does not enable TLS, even with a certificate.
    let (socket, address) = bound();
    let (command, stdin) = hand_over(socket, "other", &arguments);
    let _server = Server::launch_with(command, stdin);
    assert_eq!(curl_output(&[&format!("http://{address}/file")]), "content");
}

/// The sockets remain, whatever addresses the configuration has.
fn over_a_reload(driver: &'static str) {
    let site = site();
    let file = site.outside().join("web.toml");
    fs::write(&file, "host.root = 'root'").unwrap();
    let (socket, address) = bound();
    let arguments = ["--driver", driver, "--config", file.to_str().unwrap()];
    let (command, stdin) = hand_over(socket, "", &arguments);
    let server = Server::launch_with(command, stdin);
    site.file("new/file", "new");
    fs::write(&file, "listen = '127.0.0.1:1'\nhost.root = 'root/new'").unwrap();
    assert!(server.reloaded().contains("version 2"));
    assert_eq!(get(address, "/file").body, b"new");
}

#[test]
fn other_descriptors_are_rejected() {
    let site = site();
    let pair = std::os::unix::net::UnixStream::pair().unwrap();
    let (listener, address) = bound();
    let client = std::net::TcpStream::connect(address).unwrap();
    drop(listener);
    for socket in [OwnedFd::from(pair.0), OwnedFd::from(client)] {
        let root = site.root();
        let (mut command, stdin) = hand_over(socket, "odd", &[root.to_str().unwrap()]);
        let output = command.stdin(stdin).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
        assert!(stderr.contains("inherited socket 0 (\"odd\")"), "{stderr}");
    }
    // Sockets for another process are ignored.
    let (socket, _) = bound();
    let mut command = bare();
    command.arg("web").arg(site.root()).args(["--listen", "127.0.0.1:0"]);
    command.env("LISTEN_FDS", "1").env("LISTEN_PID", "1");
    let server = Server::launch_with(command, Stdio::from(OwnedFd::from(socket)));
    assert_eq!(get(server.address, "/file").body, b"content");
}

/// With the real systemd, and several sockets.
#[test]
fn systemd_socket_activate() {
    let site = site();
    if Command::new("systemd-socket-activate").arg("--version").output().is_err() {
        println!("skipped: there is no systemd-socket-activate");
        return;
    }
    let free = || {
        let socket = TcpListener::bind((unique_loopback(), 0)).unwrap();
        socket.local_addr().unwrap().to_string()
    };
    let (one, two) = (free(), free());
    let mut command = Command::new("systemd-socket-activate");
    command.args(["--listen", &one, "--listen", &two, "--fdname", "web:more"]);
    let server = bare();
    command.arg(server.get_program()).arg("web").arg(site.root());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    struct KillOnDrop(std::process::Child);
    impl Drop for KillOnDrop {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    // It executes the server when a client connects.
    let _ends = KillOnDrop(command.spawn().unwrap());
    for address in [&one, &two] {
        let address = address.parse().unwrap();
        eventually("the socket", || std::net::TcpStream::connect::<SocketAddr>(address).ok());
        assert_eq!(get(address, "/file").body, b"content");
    }
}
