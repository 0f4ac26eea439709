//! `phalanx top` with a running server.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::thread;

use phalanx_testkit::http::get;
use phalanx_testkit::site::Site;

use crate::on_each_driver;
use crate::web::admin::snapshots::{STAGES, start};

on_each_driver!(a_plain_table);

fn top(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.arg("top").args(arguments).env_remove("PHALANX_ADMIN").stdin(Stdio::null());
    command.output().unwrap()
}

fn a_plain_table(driver: &'static str) {
    let site = Site::new();
    let server = start(driver, &site);
    let admin = format!("http://{}/", server.admin());
    let output = thread::scope(|scope| {
        let output = scope.spawn(|| top(&[&admin, "--once", "--every", "500ms"]));
        while !output.is_finished() {
            assert_eq!(get(server.address, "/small").status, 200);
        }
        output.join().unwrap()
    });
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{text}");
    // The line about connections that moved is absent if none did.
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("moved: ")).collect();
    assert_eq!(lines.len(), 2 + STAGES.len() * 2, "{text}");
    assert!(lines[0].contains(driver) && lines[0].contains("running"), "{text}");
    for (stage, pair) in STAGES.iter().zip(lines[2..].chunks(2)) {
        assert!(pair.iter().all(|line| line.starts_with(stage)), "{stage}: {text}");
    }
    let figures = |line: &str| -> Vec<String> {
        line.split("  ")
            .map(|cell| cell.trim().to_owned())
            .filter(|cell| !cell.is_empty())
            .collect()
    };
    assert_eq!(figures(lines[1]).len(), 14, "{text}");
    assert!(lines[2..].iter().all(|line| figures(line).len() == 14), "{text}");
    let rate = |line: &str| figures(line)[4].clone();
    let mut network = lines[2..].iter().filter(|line| line.starts_with("network "));
    assert!(network.any(|line| rate(line) != "0"), "the network was busy: {text}");
    let summed = top(&[&admin, "--once", "--every", "50ms", "--sum"]);
    let summed = String::from_utf8(summed.stdout).unwrap();
    let rows = summed.lines().filter(|line| !line.starts_with("moved: ")).count();
    assert_eq!(rows, 2 + STAGES.len(), "{summed}");
    // Without a terminal there is nothing to draw on.
    let output = top(&[&admin]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--once"));
}

#[test]
fn an_unreachable_address() {
    // Bound but not listening: the port is reserved, and connections are refused.
    let occupied =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    occupied.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = occupied.local_addr().unwrap().as_socket().unwrap().to_string();
    let output = top(&[&address, "--once"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with(&format!("phalanx top: cannot reach {address}")), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(output.stdout.is_empty());
}

#[test]
fn another_server() {
    for (answer, reason) in [
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "404"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "not a snapshot"),
        ("SSH-2.0-x\r\n\r\n", ""),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let other = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(answer.as_bytes());
        });
        let output = top(&[&address, "--once"]);
        other.join().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let stderr = String::from_utf8(output.stderr).unwrap();
        let other = "not the admin address of a Phalanx program";
        assert!(stderr.contains(other) && stderr.contains(reason), "{answer:?}: {stderr}");
    }
}

#[test]
fn bad_arguments() {
    for arguments in [&["--every", "0"][..], &["--every", "1"], &["a:1", "b:2"], &["--bad"]] {
        assert_eq!(top(arguments).status.code(), Some(2), "{arguments:?}");
    }
}
