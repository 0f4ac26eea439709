//! Reloading the configuration with SIGHUP while requests are served.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use phalanx_testkit::authority::Authority;
use phalanx_testkit::http::{Client, get};
use phalanx_testkit::process::{curl, curl_output};
use phalanx_testkit::site::Site;
use phalanx_testkit::tcp::unique_loopback;
use phalanx_testkit::{TIMEOUT, eventually};
use rustix::process::{Pid, Signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::on_each_driver;
use crate::server::{Server, bare};

on_each_driver!(
    a_new_configuration_is_served,
    nothing_is_lost,
    addresses_are_added_and_removed,
    certificates_are_replaced,
    servers_of_the_proxy_are_checked,
    systemd_is_notified,
    a_configuration_from_a_pipe_stays,
    the_number_of_workers_stays,
);

/// A server whose configuration file changes.
struct ReloadableServer {
    server: Server,
    file: PathBuf,
}

impl ReloadableServer {
    fn start(driver: &str, site: &Site, text: &str) -> Self {
        Self::start_with(driver, site, text, |_| ())
    }

    fn start_with(
        driver: &str,
        site: &Site,
        text: &str,
        configure: impl FnOnce(&mut std::process::Command),
    ) -> Self {
        let file = site.outside().join("web.toml");
        fs::write(&file, text).unwrap();
        let mut command = bare();
        command.args(["web", "--workers", "2", "--driver", driver, "--config"]).arg(&file);
        configure(&mut command);
        Self { server: Server::launch(command), file }
    }

    /// Writes the file, reloads it and returns the server's messages.
    fn reload(&self, text: &str) -> String {
        fs::write(&self.file, text).unwrap();
        self.server.reload()
    }
}

/// Health checks of a server that a reload adds start before the first request for it.
fn servers_of_the_proxy_are_checked(driver: &'static str) {
    let site = Site::new();
    site.file("up", "");
    let reloadable = ReloadableServer::start(driver, &site, LISTEN);
    let address =
        std::net::TcpListener::bind((unique_loopback(), 0)).unwrap().local_addr().unwrap();
    reloadable.reload(&format!(
        "{LISTEN}[[host.proxy]]\nprefix = '/api'\nto = 'http://{address}'\n\
         health = {{ path = '/up', interval = '20ms', healthy = 1 }}\n"
    ));
    let says = |what: &str| {
        let line = format!("phalanx: http://{address} is {what}");
        eventually(what, || reloadable.server.stderr().contains(&line).then_some(()));
    };
    says("down and gets no requests: Connection refused");
    let mut command = bare();
    command.arg("web").arg(site.root()).args(["--workers", "1", "--listen", &address.to_string()]);
    let _backend = Server::launch(command);
    says("up again\n");
}

/// A reload keeps a configuration that was read from a pipe, named or not, because the pipe cannot be read again.
fn a_configuration_from_a_pipe_stays(driver: &'static str) {
    let site = Site::new();
    site.file("file", "content");
    let text = format!("{LISTEN}host.root = '{}'\n", site.root().display());
    let fifo = site.outside().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(text.as_bytes()).unwrap();
    drop(writer);
    for (path, stdin) in [(PathBuf::from("/dev/stdin"), reader.into()), (fifo, Stdio::null())] {
        let name = path.clone();
        let text = text.clone();
        let writer = thread::spawn(move || {
            if name.ends_with("fifo") {
                fs::write(name, text).unwrap();
            }
        });
        let mut command = bare();
        command.args(["web", "--workers", "2", "--driver", driver, "--config"]).arg(path);
        let mut server = Server::launch_with(command, stdin);
        writer.join().unwrap();
        let output = server.reloaded();
        assert!(output.contains("not read again, because it is a pipe"), "{output}");
        assert_eq!(get(server.address, "/file").body, b"content");
        // No further address was opened.
        server.ends_well();
    }
}

/// The number of cores available to the process changes, as when a container's quota changes.
fn the_number_of_workers_stays(driver: &'static str) {
    let site = Site::new();
    let mut command = bare();
    command.args(["web", "--listen", "127.0.0.1:0", "--driver", driver]).arg(site.root());
    let mut server = Server::launch(command);
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    let reload = tasks
        .map(|task| task.unwrap().path())
        .find(|task| fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "reload\n"));
    let reload: i32 = reload.unwrap().file_name().unwrap().to_str().unwrap().parse().unwrap();
    let reload = Pid::from_raw(reload);
    let allowed = sched_getaffinity(reload).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|core| allowed.is_set(*core)).unwrap();
    let mut one = CpuSet::new();
    one.set(first);
    sched_setaffinity(reload, &one).unwrap();
    let output = server.reloaded();
    assert!(!output.contains("runtime.workers"), "{output}");
    server.ends_well();
}

const LISTEN: &str = "listen = '127.0.0.1:0'\n";

fn a_new_configuration_is_served(driver: &'static str) {
    let site = Site::new();
    for name in ["one", "two"] {
        site.file(format!("{name}/file"), name);
    }
    let log = site.outside().join("log");
    let text = |rest: &str| format!("{LISTEN}access-log.target = '{}'\n{rest}", log.display());
    let mut reloadable = ReloadableServer::start(driver, &site, &text("host.root = 'root/one'"));
    let mut client = Client::connect(reloadable.server.address);
    assert_eq!(client.get("/file").body, b"one");
    // An open connection follows the new configuration, too.
    let output =
        reloadable.reload(&text("cache = 5\nruntime.batch-delay = '1ms'\nhost.root = 'root/two'"));
    assert!(output.contains("reloaded; configuration version 2"), "{output}");
    for key in ["cache", "runtime.batch-delay"] {
        assert!(output.contains(&format!("phalanx: {key}: changed; restart to apply")), "{output}");
    }
    assert_eq!(output.lines().count(), 3, "{output}");
    assert_eq!(client.get("/file").body, b"two");
    // A configuration with an error changes nothing.
    let output = reloadable.reload(&text("host.rot = 'root/one'"));
    assert!(output.contains("web.toml:3:6: host.rot: unknown key"), "{output}");
    let output = reloadable.reload(&text("host.root = 'root/none'"));
    assert!(output.contains("root/none") && output.contains("remains in effect"), "{output}");
    assert_eq!(client.get("/file").body, b"two");
    // With changed rules of a host, its responses have the new fields, though the files are cached.
    let rule = "host.root = 'root/two'\n[[host.header]]\npath = '/**'\nname = 'X-New'\nvalue = '1'";
    reloadable.reload(&text(rule));
    assert_eq!(client.get("/file").field("x-new"), Some("1"));
    // Limits apply to new connections.
    reloadable.reload(&text("host.root = 'root/one'\nmax-connections-per-address = 1"));
    let mut first = Client::connect(reloadable.server.address);
    assert_eq!(first.get("/file").body, b"one");
    assert_eq!(get(reloadable.server.address, "/file").status, 429);
    // The log is reopened by name and no longer written to the moved file.
    let redirect = site.outside().join("moved");
    fs::rename(&log, &redirect).unwrap();
    reloadable.reload(&text("host.root = 'root/one'"));
    assert_eq!(first.get("/file").body, b"one");
    eventually("the new log", || fs::read_to_string(&log).ok().filter(|text| !text.is_empty()));
    reloadable.server.signal(Signal::TERM);
    reloadable.server.expect_success();
}

/// While curl sends requests continuously on open and new connections, the configuration changes repeatedly. Each
/// request is answered, and after each change with the new configuration.
fn nothing_is_lost(driver: &'static str) {
    const RELOADS: usize = 30;
    let site = Site::new();
    for version in 0..=RELOADS {
        site.file(format!("{version}/file"), version.to_string());
        site.file(format!("{version}/other"), vec![b'x'; 100_000]);
    }
    let text = |version: usize| {
        let limit = 1000 + version;
        format!("{LISTEN}max-connections = {limit}\nhost.root = 'root/{version}'")
    };
    let mut reloadable = ReloadableServer::start(driver, &site, &text(0));
    let address = reloadable.server.address;
    let (is_over, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..3)
        .map(|n| {
            let (is_over, served) = (is_over.clone(), served.clone());
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let url = format!("http://{address}/{{file,other}}?[1-20]");
                    let close: &[&str] = if n == 0 { &["-H", "Connection: close"] } else { &[] };
                    let arguments = [&["--fail", "-w", "\n%{http_code}\n", &url], close].concat();
                    let output = curl(&arguments);
                    let errors = String::from_utf8_lossy(&output.stderr);
                    assert!(output.status.success(), "{errors}");
                    let text = String::from_utf8(output.stdout).unwrap();
                    let count = text.lines().filter(|line| *line == "200").count();
                    assert_eq!(count, 40, "each of them");
                    served.fetch_add(count, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let mut client = Client::connect(address);
    for version in 1..=RELOADS {
        reloadable.reload(&text(version));
        let expected = version.to_string();
        assert_eq!(String::from_utf8_lossy(&client.get("/file").body), expected);
        assert_eq!(curl_output(&[&format!("http://{address}/file")]), expected);
    }
    is_over.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert!(served.load(Ordering::Relaxed) > 0);
    reloadable.server.signal(Signal::TERM);
    reloadable.server.expect_success();
}

fn addresses_are_added_and_removed(driver: &'static str) {
    let site = Site::new();
    site.file("file", "content");
    let text = |listen: &str| format!("listen = [{listen}]\nhost.root = 'root'");
    let (one, two) = (format!("'{}:0'", unique_loopback()), format!("'{}:0'", unique_loopback()));
    let mut reloadable = ReloadableServer::start(driver, &site, &text(&one));
    let first = reloadable.server.address;
    let mut old = Client::connect(first);
    assert_eq!(old.get("/file").body, b"content");
    reloadable.reload(&text(&format!("{one}, {two}")));
    let second = reloadable.server.next_address();
    for address in [first, second] {
        // On every worker: many connections are spread over all.
        for _ in 0..20 {
            assert_eq!(get(address, "/file").body, b"content");
        }
    }
    let mut session_file = Client::connect(second);
    assert_eq!(session_file.get("/file").body, b"content");
    // A removed address stops accepting; existing connections stay open.
    reloadable.reload(&text(&two));
    eventually("the end of the first address", || TcpStream::connect(first).err());
    assert_eq!(get(second, "/file").body, b"content");
    for client in [&mut old, &mut session_file] {
        assert_eq!(client.get("/file").body, b"content");
    }
    // An unavailable address changes nothing.
    let output = reloadable.reload(&text(&format!("{two}, '192.0.2.1:1'")));
    assert!(output.contains("cannot listen on 192.0.2.1:1"), "{output}");
    let output = reloadable.reload(&text(&two.replace("'127", "'https://127")));
    assert!(output.contains("no host has a certificate"), "{output}");
    assert_eq!(get(second, "/file").body, b"content");
    reloadable.server.signal(Signal::TERM);
    // Each reload prints new addresses, so several lines are expected.
    assert!(reloadable.server.exit().success());
}

fn certificates_are_replaced(driver: &'static str) {
    let (site, authority) = (Site::new(), Authority::new());
    site.file("file", "content");
    let pairs = ["a", "b"].map(|name| authority.sign(name, &[&format!("{name}.test")]));
    let text = |n: usize, listen: &str| {
        let [_, certificate, _, key] = pairs[n].arguments();
        format!(
            "listen = [{listen}]\n[host]\nroot = 'root'\n\
             tls = {{ certificate = {certificate:?}, key = {key:?} }}"
        )
    };
    let reloadable = ReloadableServer::start(driver, &site, &text(0, "'https://127.0.0.1:0'"));
    let port = reloadable.server.address.port();
    let ca = authority.certificate();
    let ask = |name: &str, scheme: &str, address: &str, port: u16| {
        let url = format!("{scheme}://{name}:{port}/file");
        let resolve = format!("{name}:{port}:{address}");
        curl(&["--cacert", ca.to_str().unwrap(), "--resolve", &resolve, &url])
    };
    assert!(ask("a.test", "https", "127.0.0.1", port).status.success());
    reloadable.reload(&text(1, "'https://127.0.0.1:0'"));
    assert_eq!(ask("b.test", "https", "127.0.0.1", port).stdout, b"content");
    assert!(!ask("a.test", "https", "127.0.0.1", port).status.success());
    // The protocol of an address may change, and the target of a redirect.
    reloadable.reload(&text(1, "'https://127.0.0.1:0', 'redirect-https://127.0.0.2:0'"));
    let plain = reloadable.server.next_address();
    let redirect = get(plain, "/file");
    assert_eq!(redirect.status, 308);
    reloadable.reload(&text(1, "'127.0.0.1:0', 'https://127.0.0.2:0'"));
    eventually("no TLS at the first", || {
        (ask("b.test", "http", "127.0.0.1", port).stdout == b"content").then_some(())
    });
    eventually("TLS at the other", || {
        (ask("b.test", "https", "127.0.0.2", plain.port()).stdout == b"content").then_some(())
    });
    // TLS cannot be added to a server that started without it.
    let other =
        ReloadableServer::start(driver, &site, "listen = '127.0.0.1:0'\nhost.root = 'root'");
    let output = other.reload(&text(0, "'127.0.0.1:0', 'https://127.0.0.2:0'"));
    assert!(output.contains("requires a restart") && output.contains("not reloaded"), "{output}");
}

/// Notifications to systemd in order (sd_notify(3), `Type=notify-reload`).
fn systemd_is_notified(driver: &'static str) {
    let site = Site::new();
    site.file("file", "content");
    let socket = site.outside().join("notify");
    let notified = UnixDatagram::bind(&socket).unwrap();
    notified.set_read_timeout(Some(TIMEOUT)).unwrap();
    let hear = || {
        let mut bytes = [0; 256];
        let length = notified.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap().trim_end().to_owned()
    };
    let text = format!("{LISTEN}host.root = 'root'");
    let mut reloadable = ReloadableServer::start_with(driver, &site, &text, |command| {
        command.env("NOTIFY_SOCKET", &socket);
    });
    assert_eq!(hear(), "READY=1");
    let mut times = Vec::new();
    for text in [&text[..], "host.rot = 5", &text] {
        reloadable.reload(text);
        let reloading = hear();
        let time = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        times.push(time.parse::<u64>().unwrap());
        assert_eq!(hear(), "READY=1");
    }
    assert!(times.is_sorted_by(|one, next| one < next), "{times:?}");
    // The notification precedes the shutdown.
    let mut slow = Client::connect(reloadable.server.address);
    // Two requests, to be sure that the server has received the beginning of the second.
    slow.send("GET /file HTTP/1.1\r\nHost: h\r\n\r\nGET /file HTTP/1.1\r\n");
    assert_eq!(slow.response().body, b"content");
    reloadable.server.signal(Signal::TERM);
    assert_eq!(hear(), "STOPPING=1");
    slow.send("Host: h\r\n\r\n");
    assert_eq!(slow.response().body, b"content");
    reloadable.server.expect_success();
}

/// Deployment by a symbolic link that is switched to the next version.
#[test]
fn a_root_that_is_a_switched_link() {
    let site = Site::new();
    for name in ["one", "two"] {
        site.file(format!("{name}/file"), name);
    }
    let link = site.outside().join("current");
    symlink(site.root().join("one"), &link).unwrap();
    let text = format!("{LISTEN}host.root = 'current'");
    let reloadable = ReloadableServer::start("poll", &site, &text);
    assert_eq!(get(reloadable.server.address, "/file").body, b"one");
    fs::remove_file(&link).unwrap();
    symlink(site.root().join("two"), &link).unwrap();
    reloadable.reload(&text);
    assert_eq!(get(reloadable.server.address, "/file").body, b"two");
}
