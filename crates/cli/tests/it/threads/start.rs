//! The start of a program: the properties of the process that it inherits, and programs that are not started.

use std::path::Path;
use std::process::{Command, Output};

use super::machine_is_suitable;
use super::run::{compile, output, threads};

/// `env` executes the interpreter of many scripts.
#[test]
fn scripts_that_name_their_interpreter_for_env_run_on_carriers() {
    let home = tempfile::tempdir().unwrap();
    let Some(program) = compile(home.path(), "carriers").filter(|_| machine_is_suitable()) else {
        return;
    };
    let script = home.path().join("script");
    std::fs::write(&script, "#!/usr/bin/env carriers\n").unwrap();
    std::fs::set_permissions(&script, std::fs::metadata(&program).unwrap().permissions()).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", home.path().display());
    let shared = output(threads(1, &script).env("PATH", path));
    assert_eq!(shared.stdout, b"shared\n", "{shared:?}");
}

/// Rust's runtime changes some of these before `main`, and the check has a child.
#[test]
fn signals_and_standard_descriptors_are_inherited() {
    let home = tempfile::tempdir().unwrap();
    let Some(program) = compile(home.path(), "inherited").filter(|_| machine_is_suitable()) else {
        return;
    };
    let phalanx = env!("CARGO_BIN_EXE_phalanx");
    let prefixes = [
        "exec env --default-signal=PIPE --default-signal=CHLD \"$@\"",
        "exec env --ignore-signal=PIPE \"$@\"",
        "exec env --ignore-signal=PIPE --ignore-signal=CHLD --ignore-signal=TERM \"$@\"",
        "exec env --block-signal=CHLD --block-signal=PIPE --default-signal=CHLD \"$@\"",
        "exec \"$@\" <&-",
        "exec \"$@\" <&- >&- 2>&-",
    ];
    for prefix in prefixes {
        let run = |command: &[&str]| {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", prefix, "sh"]).args(command).arg(&program).current_dir(home.path());
            let output = output(&mut shell);
            assert!(output.status.success(), "{prefix}: {output:?}");
            let written = home.path().join("output");
            let text = std::fs::read_to_string(&written).unwrap();
            std::fs::remove_file(written).unwrap();
            text
        };
        let native = run(&[]);
        assert_eq!(run(&[phalanx, "threads", "--carriers", "2", "--"]), native, "{prefix}");
    }
}

#[test]
fn the_environment_of_children_is_restored() {
    if !machine_is_suitable() {
        return;
    }
    // bash replaces functions of the C library for variables.
    for shell in ["/bin/sh", "/bin/bash"].map(Path::new).into_iter().filter(|shell| shell.exists())
    {
        let mut command = threads(1, shell);
        command.args(["-c", "env; ls /proc/self/fd"]);
        let Output { stdout, stderr, .. } = output(&mut command);
        let text = String::from_utf8(stdout).unwrap();
        for name in ["LD_PRELOAD", "GLIBC_TUNABLES", "PHALANX_THREADS"] {
            assert!(!text.contains(name), "{shell:?}: {text}");
        }
        assert!(stderr.is_empty(), "{shell:?}: {}", String::from_utf8_lossy(&stderr));
        command.env("GLIBC_TUNABLES", "glibc.malloc.check=0");
        let text = String::from_utf8(output(&mut command).stdout).unwrap();
        assert!(text.contains("GLIBC_TUNABLES=glibc.malloc.check=0\n"), "{shell:?}: {text}");
        assert!(!text.contains("PHALANX_THREADS"), "{shell:?}: {text}");
    }
}

#[test]
fn unsuitable_programs_are_not_run() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    std::fs::write(&file, "text").unwrap();
    for (program, expected) in
        [(file.as_path(), "refused"), (Path::new("/no/program"), "/no/program")]
    {
        let output = output(&mut threads(1, program));
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8(output.stderr).unwrap().contains(expected));
    }
    let output = output(threads(1, Path::new("/usr/bin/env")).args(["-u", "A", "B=c"]).arg(&file));
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("refused"));
}
