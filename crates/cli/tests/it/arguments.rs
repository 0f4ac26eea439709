//! Arguments and outputs that several commands share.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use crate::server::bare;

/// The exit code of a command, and its stderr.
fn run(command: &mut Command) -> (Option<i32>, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// With `--config <(generate)` a shell passes the configuration as a pipe.
#[test]
fn a_configuration_may_be_a_pipe() {
    for server in ["web", "broker"] {
        let mut command = bare();
        command.args([server, "--print-config", "--config", "/dev/stdin"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"max-connections = 77\n").unwrap();
        let output = child.wait_with_output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && printed.contains("max-connections = 77"), "{printed}");
    }
}

#[test]
fn paths_that_are_no_text_are_errors() {
    let wrong = OsStr::from_bytes(b"/tmp/a\xff");
    for (arguments, variable) in [
        (&["web", "--root"][..], None),
        (&["web"], None),
        (&["broker", "--ephemeral", "--acl-file"], None),
        (&["broker", "--ephemeral", "--check"], Some("PHALANX_BROKER_ACL_FILE")),
    ] {
        let mut command = bare();
        command.args(arguments);
        match variable {
            Some(variable) => command.env(variable, wrong),
            None => command.arg(wrong),
        };
        let (code, output) = run(&mut command);
        assert!(
            code == Some(2) && output.contains("is not UTF-8"),
            "{arguments:?}: {code:?} {output}"
        );
    }
}

#[test]
fn passwords_in_addresses_are_not_printed() {
    let url = "mqtt://ann:hidden@localhost";
    for command in ["pub", "sub"] {
        let of_flag = run(bare().args([command, "-t", "t", "--broker", url]));
        let of_variable = run(bare().args([command, "-t", "t"]).env("PHALANX_BROKER", url));
        let help = bare().args([command, "--help"]).env("PHALANX_BROKER", url).output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        assert!(help.contains("PHALANX_BROKER") && !help.contains("hidden"), "{help}");
        for (code, output) in [of_flag, of_variable] {
            assert!(code == Some(2) && output.contains("PHALANX_PASSWORD"), "{output}");
            assert!(!output.contains("hidden"), "{output}");
        }
    }
    for (key, url) in [("cluster", "nats://ann:hidden@host"), ("cluster", "http://ann:hidden@host")]
    {
        let flag = format!("--{key}={url}");
        let (code, output) = run(bare().args(["broker", "--ephemeral", "--check", &flag]));
        assert!(code == Some(2) && output.contains(key) && !output.contains("hidden"), "{output}");
        // A value of another type, and a text that is not TOML.
        for set in [format!("{key} = ['{url}', 1]"), format!("{key} = '{url}' more")] {
            let of_flag = run(bare().args(["broker", "--ephemeral", "--check", "--set", &set]));
            let mut command = bare();
            command.args(["broker", "--ephemeral", "--check"]).env("PHALANX_BROKER_SET", &set);
            for (code, output) in [of_flag, run(&mut command)] {
                assert!(
                    code == Some(2) && output.contains(key) && !output.contains("hidden"),
                    "{output}"
                );
            }
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn an_output_that_cannot_be_written_is_an_error() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = bare();
    command.args(["threads", "--json", "--check"]).arg(env!("CARGO_BIN_EXE_phalanx"));
    let (code, output) = run(command.stdout(full));
    assert!(code == Some(1) && output.contains("cannot print"), "{code:?} {output}");
}

/// As both servers.
#[test]
#[cfg(target_os = "linux")]
fn admin_pages_of_threads_are_for_this_machine() {
    let command = |more: &[&str]| {
        let mut command = bare();
        command.args(["threads", "--admin", "0.0.0.0:0"]).args(more).args(["--", "/no/such/file"]);
        run(&mut command)
    };
    let (code, output) = command(&[]);
    assert!(code == Some(2) && output.contains("set --admin-public"), "{code:?} {output}");
    let (code, output) = command(&["--admin-public"]);
    assert!(code == Some(1) && !output.contains("--admin-public"), "{code:?} {output}");
}
