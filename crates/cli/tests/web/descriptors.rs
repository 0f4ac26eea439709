//! A server that runs out of descriptors, and one that would if it kept open whatever it serves.

#![cfg(target_os = "linux")]

use std::net::TcpStream;
use std::process::Command;

use crate::client::{Client, get};
use crate::on_each_driver;
use crate::process::descriptors;
use crate::server::{Server, eventually, program};
use crate::site::{Site, noise, same};

on_each_driver!(more_large_files_than_descriptors, more_clients_than_descriptors);

/// A server that may have so many descriptors.
fn with_descriptors(limit: usize, driver: &str, site: &Site) -> Server {
    let inner = program(driver, &site.root());
    let mut command = Command::new("sh");
    let script = format!("ulimit -n {limit} && exec \"$0\" \"$@\"");
    command.args(["-c", &script]).arg(inner.get_program()).args(inner.get_args());
    for (name, _) in inner.get_envs() {
        command.env_remove(name);
    }
    Server::launch(command)
}

/// Large files are served from open ones, and the cache keeps them: but not all of them.
fn more_large_files_than_descriptors(driver: &'static str) {
    let site = Site::new();
    for n in 0..600 {
        site.file(format!("{n}"), noise(n, 70_000));
    }
    let server = with_descriptors(400, driver, &site);
    let mut client = Client::connect(server.address);
    for n in (0..600).chain(0..600) {
        let response = client.get(&format!("/{n}"));
        assert_eq!(response.status, 200, "file {n}, {} descriptors", descriptors(server.pid()));
        same(&response.body, &noise(n, 70_000));
    }
    // And there is one left for another client.
    assert_eq!(get(server.address, "/0").status, 200);
}

fn more_clients_than_descriptors(driver: &'static str) {
    let site = Site::new();
    site.file("file", "content");
    let server = with_descriptors(64, driver, &site);
    let mut first = Client::connect(server.address);
    assert_eq!(first.get("/file").body, b"content");
    let crowd: Vec<_> = (0..100).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    // Those who are in are served. A file that is not cached needs a descriptor, so may be refused.
    assert_eq!(first.get("/file").body, b"content");
    site.file("other", "other");
    assert!([200, 503].contains(&first.get("/other").status));
    drop(crowd);
    eventually("a place for another", || {
        let mut client = Client::of(TcpStream::connect(server.address).ok()?);
        client.stream.set_read_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
        client.send("GET /file HTTP/1.0\r\n\r\n");
        client.more().ok().filter(|count| *count > 0)
    });
    assert_eq!(get(server.address, "/other").body, b"other");
}
