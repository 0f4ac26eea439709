//! Checks of programs.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::machine_is_suitable;

fn check(program: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.args(["threads", "--check"]).arg(program).args(options).output().unwrap()
}

fn check_json(program: &Path) -> Value {
    let output = check(program, &["--json"]);
    let value: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!(value["suitable"] == true, output.status.success(), "{output:?}");
    value
}

/// Compiles a C program that creates a thread and waits for it; none if the compiler or a library is missing.
fn compile(folder: &Path, options: &[&str]) -> Option<PathBuf> {
    let source = folder.join("program.c");
    let text = "#include <pthread.h>\n#include <unistd.h>\n#include <string.h>\n\
        static void *body(void *p) { usleep(1); return p; }\n\
        int main(int n, char **v) { pthread_t t; if (pthread_create(&t, 0, body, 0)) return 1;\n\
        return pthread_join(t, 0) + (strlen(v[0]) == 0); }\n";
    std::fs::write(&source, text).unwrap();
    let program = folder.join("program");
    let mut command = Command::new("cc");
    command.args(["-fno-builtin", "-pthread", "-o"]).arg(&program).arg(&source).args(options);
    let compiled = command.output().is_ok_and(|output| output.status.success());
    if !compiled {
        eprintln!("SKIPPED: cc {options:?} does not work here");
    }
    compiled.then_some(program)
}

/// A library whose path is relative to the folder of the program is found through a link to the program.
#[test]
fn links_to_programs_are_followed() {
    let home = tempfile::tempdir().unwrap();
    let (source, library) = (home.path().join("needed.c"), home.path().join("libneeded.so"));
    std::fs::write(&source, "int needed(void) { return 0; }\n").unwrap();
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    if !command.output().is_ok_and(|output| output.status.success()) {
        return eprintln!("SKIPPED: cc -shared does not work here");
    }
    let folder = home.path().to_str().unwrap();
    let options = [&format!("-L{folder}"), "-Wl,--no-as-needed", "-lneeded", "-Wl,-rpath,$ORIGIN"];
    let Some(program) = compile(home.path(), &options.map(|option| option as &str)) else { return };
    let link = tempfile::tempdir().unwrap();
    let link = link.path().join("link");
    std::os::unix::fs::symlink(&program, &link).unwrap();
    let output = check(&link, &[]);
    let found = if machine_is_suitable() { 0 } else { 1 };
    assert_eq!(output.status.code(), Some(found), "{output:?}");
}

#[test]
fn imports_are_reported_with_their_treatment() {
    let home = tempfile::tempdir().unwrap();
    let Some(program) = compile(home.path(), &[]) else { return };
    if !machine_is_suitable() {
        return;
    }
    let value = check_json(&program);
    assert_eq!(value["suitable"], true, "{value}");
    assert_eq!(value["creates_threads"], true);
    assert!(value["glibc"].as_str().unwrap().starts_with("2."));
    let table = [
        ("pthread_create", "converted"),
        ("pthread_join", "converted"),
        ("usleep", "converted"),
        ("strlen", "untouched"),
    ];
    for (name, expected) in table {
        assert_eq!(value["imports"][name]["treatment"], expected, "{name}: {value}");
    }
    let output = check(&program, &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("program: suitable (glibc 2."), "{text}");
    assert!(text.contains("converted  pthread_create (program)\n"), "{text}");
    assert!(!text.contains("strlen"), "{text}");
}

#[test]
fn programs_without_preloading_are_refused() {
    let home = tempfile::tempdir().unwrap();
    if let Some(program) = compile(home.path(), &["-static"]) {
        assert!(check_json(&program)["refusals"].to_string().contains("statically linked"));
    }
    let linker = "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1";
    if let Some(program) = compile(home.path(), &[linker]) {
        assert!(check_json(&program)["refusals"].to_string().contains("musl"));
    }
    // A linker that is not glibc's must not run.
    let fake_linker = home.path().join("linker");
    std::fs::write(&fake_linker, "#!/bin/sh\ntouch \"$0.ran\"\n").unwrap();
    std::fs::set_permissions(&fake_linker, std::fs::Permissions::from_mode(0o755)).unwrap();
    let linker = format!("-Wl,--dynamic-linker={}", fake_linker.display());
    if let Some(program) = compile(home.path(), &[&linker]) {
        assert!(check_json(&program)["refusals"].to_string().contains("dynamic linker"));
        assert!(!home.path().join("linker.ran").exists());
    }
    if let Some(program) = compile(home.path(), &[]) {
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
        assert!(check_json(&program)["refusals"].to_string().contains("setuid"));
    }
    for (option, tool) in
        [("-fsanitize=address", "AddressSanitizer"), ("-fsanitize=thread", "ThreadSanitizer")]
    {
        if let Some(program) = compile(home.path(), &[option]) {
            assert!(check_json(&program)["refusals"].to_string().contains(tool));
        }
    }
    if let Some(program) = compile(home.path(), &["-m32"]) {
        assert!(check_json(&program)["refusals"].to_string().contains("32-bit"));
    }
}

#[test]
fn scripts_are_checked_by_their_interpreter() {
    let home = tempfile::tempdir().unwrap();
    let script = home.path().join("script");
    std::fs::write(&script, "#!/bin/sh\nexit 3\n").unwrap();
    let value = check_json(&script);
    assert_eq!(value["executable"], "/bin/sh");
    let text = String::from_utf8(check(&script, &[]).stdout).unwrap();
    assert!(!machine_is_suitable() || text.contains("creates threads"), "{text}");
    std::fs::write(&script, "text").unwrap();
    assert!(check_json(&script)["refusals"].to_string().contains("neither"));
}

#[test]
fn missing_programs_and_libraries_are_errors() {
    let home = tempfile::tempdir().unwrap();
    let error = |program: &Path| {
        let output = check(program, &[]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(error(&home.path().join("nothing")).contains("nothing"));
    assert!(error(Path::new("no-such-program-anywhere")).contains("$PATH"));
    let library = home.path().join("libgone.so");
    let mut built = Command::new("cc");
    built.args(["-shared", "-o"]).arg(&library).args(["-x", "c", "/dev/null"]);
    if !built.status().is_ok_and(|status| status.success()) {
        return eprintln!("SKIPPED: cc does not work here");
    }
    let folder = format!("-L{}", home.path().display());
    let Some(program) = compile(home.path(), &[&folder, "-Wl,--no-as-needed", "-lgone"]) else {
        return;
    };
    std::fs::remove_file(&library).unwrap();
    assert!(error(&program).contains("libgone.so"));
}

/// Servers use threads directly and through libraries.
#[test]
fn installed_servers_are_suitable() {
    if !machine_is_suitable() {
        return;
    }
    let table = [
        ("/usr/bin/memcached", true),
        ("/usr/bin/redis-server", true),
        ("/usr/sbin/apache2", true),
    ];
    for (program, creates_threads) in table {
        if !Path::new(program).exists() {
            eprintln!("SKIPPED: there is no {program}");
            continue;
        }
        let value = check_json(Path::new(program));
        assert_eq!(value["suitable"], true, "{program}: {}", value["refusals"]);
        assert_eq!(value["creates_threads"], creates_threads, "{program}");
    }
    let go = Path::new("/usr/local/go/bin/go");
    if go.exists() {
        assert!(check_json(go)["refusals"].to_string().contains("Go"));
    }
}
