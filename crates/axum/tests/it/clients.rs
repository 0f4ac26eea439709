//! curl, which speaks HTTP/2 and TLS.

use std::process::Command;

use axum::body::Body;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Router, http::Version};
use phalanx_testkit::within_limit;

use crate::harness::{served, served_with};

/// The output of curl; none if there is no curl with HTTP/2.
fn curl(arguments: &[&str]) -> Option<String> {
    let version = Command::new("curl").arg("--version").output().ok()?;
    if !String::from_utf8_lossy(&version.stdout).contains("HTTP2") {
        return None;
    }
    let output = Command::new("curl").args(["-sS", "--max-time", "30"]).args(arguments).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

fn app() -> Router {
    Router::new()
        .route("/version", get(|version: Version| async move { format!("{version:?}") }))
        .route("/echo", post(|body: Body| async { Response::new(body) }))
        .route(
            "/panic",
            get(|| async {
                if true {
                    panic!("by intent");
                }
            }),
        )
}

#[test]
fn http2_without_tls() {
    within_limit(|| {
        let server = served(app());
        let url = |path: &str| format!("http://{}{path}", server.address);
        let Some(version) = curl(&["--http2-prior-knowledge", &url("/version")]) else {
            return println!("skipped: there is no curl with HTTP/2");
        };
        assert_eq!(version, "HTTP/2.0");
        let long = "x".repeat(100_000);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &long).unwrap();
        let data = format!("@{}", file.path().display());
        let echo = ["--http2-prior-knowledge", "--data-binary", &data, &url("/echo")];
        assert!(curl(&echo).unwrap() == long);
        let status =
            ["--http2-prior-knowledge", "-o", "/dev/null", "-w", "%{http_code}", &url("/panic")];
        assert_eq!(curl(&status).unwrap(), "500");
    });
}

#[test]
fn tls_chooses_the_protocol() {
    within_limit(|| {
        let folder = tempfile::tempdir().unwrap();
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        std::fs::write(&certificate, certified.cert.pem()).unwrap();
        std::fs::write(&key, certified.signing_key.serialize_pem()).unwrap();
        let authority = certificate.display().to_string();
        let server = served_with(app(), |server| server.processors(1).tls(certificate, key));
        let url = format!("https://localhost:{}/version", server.address.port());
        let Some(version) = curl(&["--http2", "--cacert", &authority, &url]) else {
            return println!("skipped: there is no curl with HTTP/2");
        };
        assert_eq!(version, "HTTP/2.0");
        assert_eq!(curl(&["--http1.1", "--cacert", &authority, &url]).unwrap(), "HTTP/1.1");
        let echo = format!("https://localhost:{}/echo", server.address.port());
        let long = "y".repeat(90_000);
        let file = folder.path().join("body");
        std::fs::write(&file, &long).unwrap();
        let data = format!("@{}", file.display());
        for version in ["--http1.1", "--http2"] {
            let arguments = [version, "--cacert", &authority, "--data-binary", &data, &echo];
            assert!(curl(&arguments).unwrap() == long);
        }
    });
}
