//! `phalanx passwd` in scripts.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn passwd(file: &Path, user: &str, input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.arg("passwd").arg(file).arg(user);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    // It may have exited without reading.
    let _ = process.stdin.take().unwrap().write_all(input.as_bytes());
    process.wait_with_output().unwrap()
}

#[test]
fn the_password_is_read_from_standard_input() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("users");
    for (user, password) in [("eve", "apple\n"), ("adam", "two words"), ("eve", "pear\r\n")] {
        let output = passwd(&file, user, password);
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    }
    let users = phalanx_access::Users::open(&file).unwrap();
    assert!(users.verify("eve", b"pear") && users.verify("adam", b"two words"));
    assert!(!users.verify("eve", b"apple"));
    // (user, input, message)
    let table = [
        ("eve", "", "cannot read the password"),
        ("eve", "\n", "empty"),
        ("a:b", "x\n", "without colons"),
    ];
    for (user, input, expected) in table {
        let output = passwd(&file, user, input);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && stderr.contains(expected), "{stderr}");
    }
    let output = passwd(&home.path().join("no/users"), "eve", "x\n");
    assert!(String::from_utf8(output.stderr).unwrap().contains("no/users"));
}
