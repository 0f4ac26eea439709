//! Shell completions and manual pages.

use std::path::Path;
use std::process::{Command, Output};

fn phalanx(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_phalanx")).args(arguments).output().unwrap()
}

fn page(directory: &Path, name: &str) -> String {
    std::fs::read_to_string(directory.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn unknown_commands_name_a_similar_one() {
    for (unknown, meant) in [("wbe", "web"), ("pbu", "pub"), ("tpo", "top"), ("brokers", "broker")]
    {
        let output = phalanx(&[unknown, "--help"]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(&format!("exists: '{meant}'\n")), "{unknown}: {stderr}");
    }
    let stderr = String::from_utf8(phalanx(&["zzz"]).stderr).unwrap();
    assert!(!stderr.contains("exist"), "{stderr}");
}

#[test]
fn completions_contain_all_commands() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = phalanx(&["completions", shell]);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        for expected in ["web", "broker", "passwd", "max-connections"] {
            assert!(text.contains(expected), "{shell}: {expected}");
        }
    }
    let output = phalanx(&["completions", "csh"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("bash"));
}

/// Runs the bash completion in bash, if installed.
#[test]
fn bash_completes() {
    let script = r#"source <("$0" completions bash)
        COMP_WORDS=(phalanx web --max-o) COMP_CWORD=2
        _phalanx phalanx --max-o web
        echo "${COMPREPLY[@]}""#;
    let bash = Command::new("bash").args(["-c", script, env!("CARGO_BIN_EXE_phalanx")]).output();
    let Ok(output) = bash else { return eprintln!("SKIPPED: there is no bash") };
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "--max-open-files", "{output:?}");
}

#[test]
fn each_command_has_a_page() {
    let home = tempfile::tempdir().unwrap();
    let pages = home.path().join("made/man1");
    let output = phalanx(&["man", pages.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert!(page(&pages, "phalanx.1").contains("phalanx\\-web"));
    // The text of `--help`, and the environment variable.
    let web = page(&pages, "phalanx-web.1");
    for expected in [r"\-\-max\-connections", "PHALANX_WEB_MAX_CONNECTIONS", "SIGHUP"] {
        assert!(web.contains(expected), "{expected}");
    }
    let file = home.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = phalanx(&["man", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("file"));
}

/// Each key of the reference pages has its flag in the help, with its help text, and its variable.
#[test]
fn help_and_reference_agree() {
    let web = include_str!("../../../../docs/web/reference.md");
    let broker = include_str!("../../../../docs/broker/reference.md");
    for (command, reference) in [("web", web), ("broker", broker)] {
        let help = String::from_utf8(phalanx(&[command, "--help"]).stdout).unwrap();
        let help: Vec<&str> = help.split_whitespace().collect();
        let help = help.join(" ");
        let rows = reference.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
        let mut flags = 0;
        for (key, row) in rows {
            let name = key.trim_start_matches("runtime.").trim_start_matches("host.");
            let in_list = [
                "cache-control",
                "content-type",
                "header",
                "redirect",
                "rewrite",
                "auth",
                "bridge",
                "listener",
                "alias",
                "access",
                "proxy",
                "try-files",
            ];
            // Their flags would be those of the server's log and authority.
            if key.starts_with("host.access-log") || key == "host.acme" {
                continue;
            }
            let table = name.split_once('.').map_or("", |(table, _)| table);
            let flag = name.replace('.', "-");
            let text = row.rsplit('|').nth(1).unwrap().trim();
            let shown = help.contains(&format!("--{flag}")) && help.contains(text);
            let has_flag = !in_list.contains(&table) && key != "include";
            assert_eq!(shown, has_flag, "{key}: {text}");
            let variable = format!("PHALANX_{command}_{flag}").to_uppercase().replace('-', "_");
            assert_eq!(help.contains(&format!("[env: {variable}]")), shown, "{variable}");
            flags += usize::from(shown);
        }
        assert!(flags > 35, "{flags}");
    }
}
