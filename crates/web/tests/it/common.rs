//! An in-process server on each driver in turn, for the test suites of this crate.

#![allow(dead_code, reason = "each suite uses a part of it")]

use std::collections::VecDeque;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use phalanx::runtime::{ActiveProcessors, Control, DriverChoice};
use phalanx_testkit::driver::is_selected;
use phalanx_testkit::{TIMEOUT, http, tcp};
use phalanx_web::{Config, Operator, Reload, Reloader, ServeError, Serving, serve};

/// Length of `large` from [`small_and_large`]: more than any socket buffer.
pub(crate) const LARGE: usize = 24 << 20;

/// A running server.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// All addresses, in the order of the configuration.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) control: Control,
    pub(crate) active: ActiveProcessors,
    /// Address of its admin pages, if it has any.
    pub(crate) admin: Option<SocketAddr>,
}

/// Runs `test` against a server on each available driver, and then shuts the server down. `change` gets an
/// empty directory and returns a configuration with roots in it.
pub(crate) fn on_each_driver(change: impl Fn(&Path) -> Config, test: impl Fn(&Server, &Path)) {
    for driver in [DriverChoice::Uring, DriverChoice::Poll] {
        let home = tempfile::tempdir().unwrap();
        let mut started = None;
        let start = || start(driver, change(home.path())).map(|server| started = Some(server));
        if !is_selected(&driver.to_string(), start) {
            continue;
        }
        let (server, thread) = started.expect("it is tested");
        test(&server, home.path());
        server.control.drain();
        thread.join().unwrap().unwrap();
    }
}

/// Reloads a server at each SIGHUP, with one configuration after the other.
pub(crate) struct Reloads {
    pub(crate) up: Sender<Server>,
    pub(crate) next: Mutex<VecDeque<Config>>,
    pub(crate) reloaded: Sender<Result<(), String>>,
}

/// Held by a test whose server reloads, because a signal reaches all servers of the process.
pub(crate) static RELOADING: Mutex<()> = Mutex::new(());

impl Operator<Reloader> for Reloads {
    fn ready(&self, serving: &Serving<'_>) {
        self.up.send(Server::of(serving)).unwrap();
    }

    fn reload(&self, reloader: &mut Reloader) {
        let Some(next) = self.next.lock().unwrap().pop_front() else { return };
        let reloaded = reloader.reload(next).map(drop).map_err(|error| error.to_string());
        self.reloaded.send(reloaded).unwrap();
    }
}

/// The result of a server's thread.
type Served = JoinHandle<Result<(), String>>;

impl Server {
    pub(crate) fn of(serving: &Serving<'_>) -> Self {
        let (control, active) = (serving.up.control.clone(), serving.up.active.clone());
        let addresses = serving.addresses.to_vec();
        Self { address: addresses[0], addresses, control, active, admin: serving.up.admin }
    }
}

/// Starts a server on a thread.
fn start(driver: DriverChoice, mut config: Config) -> Result<(Server, Served), String> {
    for (listen, last) in config.listen.iter_mut().zip(1..) {
        listen.address = SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0)).into();
    }
    let runtime = &mut config.runtime;
    (runtime.driver, runtime.signals) = (driver, false);
    run(|up| serve(config, |serving| up.send(Server::of(serving)).unwrap()))
}

/// Runs `serve` on a thread, which sends the server when it has started.
pub(crate) fn run(
    serve: impl FnOnce(Sender<Server>) -> Result<(), ServeError> + Send + 'static,
) -> Result<(Server, Served), String> {
    let (up, is_up) = channel();
    let thread = thread::spawn(move || serve(up).map_err(|error| error.to_string()));
    match is_up.recv_timeout(TIMEOUT) {
        Ok(server) => Ok((server, thread)),
        Err(_) => Err(thread.join().unwrap().unwrap_err()),
    }
}

/// Creates the directory `root` in `home` with a small file and one larger than any buffer.
pub(crate) fn small_and_large(home: &Path) -> Config {
    let root = home.join("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("large"), vec![7; LARGE]).unwrap();
    std::fs::write(root.join("small"), "small").unwrap();
    Config::with_root(&root)
}

/// The value of a metric.
pub(crate) fn metric(server: &Server, name: &str) -> Option<usize> {
    let response = http::get(server.admin.unwrap(), "/metrics");
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
    response.text().lines().find_map(value)
}

/// Connects to the server.
pub(crate) fn connect(server: &Server) -> TcpStream {
    tcp::connect(server.address)
}

/// Sends an HTTP/1.0 request, after which the server closes the connection.
pub(crate) fn ask(server: &Server, path: &str) -> TcpStream {
    let mut stream = connect(server);
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
    stream
}

/// Sends `text` and reads until the server closes; a reset also counts as the end.
pub(crate) fn all(server: &Server, text: &str) -> String {
    let mut stream = connect(server);
    stream.write_all(text.as_bytes()).unwrap();
    read_to_end(&mut stream)
}

/// Reads until the server closes.
pub(crate) fn read_to_end(stream: &mut TcpStream) -> String {
    String::from_utf8_lossy(&tcp::read_to_end(stream)).into_owned()
}

/// Reads one response whose content ends with `end`.
pub(crate) fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    while !text.ends_with(end.as_bytes()) {
        let count = tcp::read(stream, &mut piece).unwrap();
        assert!(count > 0, "closed after {:?}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&piece[..count]);
    }
    String::from_utf8(text).unwrap()
}

/// Sends a GET on a new connection; returns the whole response.
pub(crate) fn get(server: &Server, path: &str) -> String {
    all(server, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
}
