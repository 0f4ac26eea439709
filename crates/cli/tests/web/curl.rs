//! Requests with curl.

use std::process::{Command, Output};

/// Runs curl, independent of proxies and the user's settings.
pub(crate) fn curl(arguments: &[&str]) -> Output {
    let output = Command::new("curl")
        .args(["--disable", "--noproxy", "*", "--silent", "--show-error", "--max-time", "60"])
        .args(arguments)
        .output();
    output.expect("these tests need curl: install it (Debian: apt-get install curl)")
}

/// Runs [`curl`], which must succeed, and returns its stdout.
#[track_caller]
pub(crate) fn curl_well(arguments: &[&str]) -> String {
    let output = curl(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "curl {arguments:?}: {}: {errors}", output.status);
    String::from_utf8(output.stdout).expect("text")
}
