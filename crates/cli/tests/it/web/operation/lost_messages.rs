//! A stderr that accepts nothing.

#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use phalanx_testkit::site::Site;
use phalanx_testkit::{eventually, tcp};

use crate::on_each_driver;
use crate::server::{Server, bare, without_stderr};

on_each_driver!(health_checks_continue);

/// The first check fails, which is a message.
fn health_checks_continue(driver: &'static str) {
    let (site, checks) = (Site::new(), Arc::new(AtomicUsize::new(0)));
    let (listener, address) = tcp::listener();
    let count = checks.clone();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            count.fetch_add(1, Ordering::Relaxed);
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let _ = lines.find(String::is_empty);
            let _ = stream.write_all(b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let text = format!(
        "listen = '127.0.0.1:0'\n[host]\nroot = 'root'\n\
         proxy = [{{ prefix = '/', to = 'http://{address}', health = {{ path = '/up', interval = '10ms' }} }}]\n"
    );
    let file = site.outside().join("web.toml");
    std::fs::write(&file, text).unwrap();
    let mut command = bare();
    command.args(["web", "--workers", "2", "--driver", driver, "--config"]).arg(file);
    let _server = Server::launch(without_stderr(&command));
    eventually("further checks", || (checks.load(Ordering::Relaxed) > 3).then_some(()));
}
