//! Clients with HTTP/2.

use std::process::Command;
use std::sync::Mutex;

use crate::common::on_each_driver;
use crate::proxy::backend::{Backend, passing};

#[test]
fn a_client_with_http2() {
    let version = Command::new("curl").arg("--version").output();
    if !version.is_ok_and(|found| String::from_utf8_lossy(&found.stdout).contains("HTTP2")) {
        eprintln!("skipped: there is no curl with HTTP/2");
        return;
    }
    let running = Mutex::new(None);
    let start = |_: &std::path::Path| {
        let backend = Backend::new(|mut peer, _| {
            while let Some(head) = peer.head() {
                assert!(
                    head.contains("Cookie: a=b; c=d\r\n") && head.contains("Via: 2.0 "),
                    "{head}"
                );
                peer.say(match head.split(' ').nth(1).unwrap() {
                    "/api/length" => "HTTP/1.1 200 OK\r\nX-Own: 1\r\nContent-Length: 5\r\n\r\nhello",
                    _ => {
                        "HTTP/1.1 418 Teapot\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
                    }
                });
            }
        });
        let mut config = passing(backend.address, |_| ());
        config.h2c = true;
        *running.lock().unwrap() = Some(backend);
        config
    };
    on_each_driver(start, |server, _| {
        let backend = running.lock().unwrap().take().expect("it was started");
        let ask = |path: &str| {
            let url = format!("http://{}{path}", server.address);
            let mut curl = Command::new("curl");
            curl.args(["-sS", "--max-time", "30", "--http2-prior-knowledge", "-w", "%{http_code}"]);
            curl.args(["-H", "Cookie: a=b", "-H", "Cookie: c=d", &url]);
            String::from_utf8(curl.output().unwrap().stdout).unwrap()
        };
        assert_eq!(ask("/api/length"), "hello200");
        assert_eq!(ask("/api/chunks"), "hello418");
        assert_eq!(backend.accepted(), 1);
    });
}
