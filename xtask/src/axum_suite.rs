//! `cargo xtask axum-suite`: axum's own tests, from its package, against servers of `phalanx-axum`.
//!
//! The package is copied from cargo's registry. One function is replaced: `spawn_service`, by which nearly all of its
//! tests start their server. The tests of `axum::serve` itself do not call it; they pass or fail with tokio alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::task::{Outcome, cargo};

/// The features with tests.
const FEATURES: &str = "http2,macros,multipart,ws";
/// Tests that expect a server on the thread of the test: two stop tokio's clock, and one expects a frame of HTTP/2 after it
/// has yielded ten times.
const ON_ONE_THREAD: [&str; 3] = [
    "extract::ws::tests::http2",
    "response::sse::tests::keep_alive",
    "response::sse::tests::keep_alive_ends_when_the_stream_ends",
];
/// The file with the function.
const HELPER: &str = "src/test_helpers/test_client.rs";
/// The body of the function. A tracing subscriber of the test's thread is that of the processors too, as it is in the
/// original, whose server runs on the test's thread.
const BODY: &str = r#"
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    println!("Listening on {addr}");
    if let Ok(log) = std::env::var("PHALANX_SUITE_LOG") {
        use std::io::Write;
        let mut log = std::fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        log.write_all(b".").unwrap();
    }
    let subscriber = tracing::dispatcher::get_default(Clone::clone);
    let runtime = phalanx::Runtime::new().thread_scope(move |run| {
        tracing::dispatcher::with_default(&subscriber, || run());
    });
    tokio::spawn(async move {
        let server = phalanx_axum::serve(listener, svc).processors(1).runtime(runtime);
        server.with_graceful_shutdown(std::future::pending()).await.expect("server error")
    });
    addr
"#;

/// Copies, patches and tests the package.
pub(crate) fn run(root: &Path) -> Outcome {
    let lock = read(&root.join("Cargo.lock"))?;
    let version = version(&lock).ok_or("Cargo.lock names no axum; run `cargo fetch`")?;
    let package = package(version)?;
    let folder = root.join("target/axum-suite").join(format!("axum-{version}"));
    copy(&package, &folder).map_err(|error| format!("cannot copy the package: {error}"))?;
    // The versions of this workspace, where it has any.
    write(&folder.join("Cargo.lock"), &lock)?;
    let manifest = read(&folder.join("Cargo.toml"))?;
    let crates = root.join("crates").display().to_string();
    let dependencies = format!(
        "\n[dev-dependencies.axum-macros]\nversion = \"0.5\"\nfeatures = [\"__private\"]\n\
         \n[dev-dependencies.phalanx]\npath = \"{crates}/phalanx\"\n\
         \n[dev-dependencies.phalanx-axum]\npath = \"{crates}/axum\"\nfeatures = [\"tokio\"]\n\n[workspace]\n"
    );
    write(&folder.join("Cargo.toml"), &(manifest + &dependencies))?;
    let helper = folder.join(HELPER);
    write(
        &helper,
        &replaced(&read(&helper)?).ok_or("`spawn_service` has changed; adapt axum_suite.rs")?,
    )?;
    test(&folder)
}

/// Runs the tests and prints a summary. Returns whether all passed.
fn test(folder: &Path) -> Outcome {
    let log = folder.join("servers");
    let _ = fs::remove_file(&log);
    let output = cargo(folder)
        .args(["test", "--lib", "--features", FEATURES, "--", "--exact"])
        .args(ON_ONE_THREAD.iter().flat_map(|test| ["--skip", test]))
        .env("PHALANX_SUITE_LOG", &log)
        .env("CARGO_TARGET_DIR", folder.join("../target"))
        // The lints of this workspace are not those of axum.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    let (passed, failed) = counts(&text).ok_or("the tests were not built")?;
    let servers = fs::metadata(&log).map_or(0, |log| log.len());
    let left_out = ON_ONE_THREAD.join(", ");
    println!("axum-suite: {passed} passed, {failed} failed; {servers} servers ran on Phalanx");
    println!("left out, because they expect a server on their own thread: {left_out}");
    Ok(output.status.success() && failed == 0 && servers > 0)
}

/// The version of axum in a lock file.
fn version(lock: &str) -> Option<&str> {
    let rest = lock.split("name = \"axum\"\nversion = \"").nth(1)?;
    rest.split('"').next()
}

/// The folder of the package in cargo's registry.
fn package(version: &str) -> Result<PathBuf, String> {
    let home = std::env::var("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|_| std::env::var("HOME").map(|home| Path::new(&home).join(".cargo")));
    let sources = home.map_err(|_| "neither CARGO_HOME nor HOME is set")?.join("registry/src");
    let registries =
        fs::read_dir(&sources).map_err(|error| format!("{}: {error}", sources.display()))?;
    let name = format!("axum-{version}");
    registries
        .flatten()
        .map(|registry| registry.path().join(&name))
        .find(|path| path.is_dir())
        .ok_or_else(|| format!("{name} is not in {}; run `cargo fetch`", sources.display()))
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &target)?,
            false => _ = fs::copy(entry.path(), target)?,
        }
    }
    Ok(())
}

/// The helper's text with another body of the function.
fn replaced(text: &str) -> Option<String> {
    let start = text.find("fn spawn_service")?;
    let body = start + text[start..].find("{\n")? + 2;
    let end = body + text[body..].find("\n}\n")? + 1;
    Some(format!("{}{}{}", &text[..body], BODY.trim_start_matches('\n'), &text[end..]))
}

/// The numbers of passed and failed tests in cargo's output.
fn counts(text: &str) -> Option<(u32, u32)> {
    let line = text.lines().find(|line| line.starts_with("test result:"))?;
    let before = |word: &str| line.split(word).next()?.rsplit(' ').next()?.parse().ok();
    Some((before(" passed")?, before(" failed")?))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_replaced() {
        let text = "use super::{serve, Request};\npub(crate) fn spawn_service<S>(svc: S) -> SocketAddr\nwhere\n    \
            S: Send,\n{\n    let old = 1;\n}\n\npub struct TestClient {\n}\n";
        let new = replaced(text).unwrap();
        assert!(!new.contains("old"), "{new}");
        assert!(new.contains("    addr\n}\n\npub struct TestClient {\n}\n"), "{new}");
    }

    #[test]
    fn counts_are_read() {
        let text =
            "running 9 tests\ntest result: FAILED. 7 passed; 2 failed; 0 ignored; finished in 1s\n";
        assert_eq!(counts(text), Some((7, 2)));
        assert_eq!(version("[[package]]\nname = \"axum\"\nversion = \"0.8.9\"\n"), Some("0.8.9"));
    }
}
