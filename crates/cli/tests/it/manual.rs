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
fn completions_contain_all_commands() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = phalanx(&["completions", shell]);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        for wanted in ["web", "broker", "passwd", "max-connections"] {
            assert!(text.contains(wanted), "{shell}: {wanted}");
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
        COMP_WORDS=(phalanx web --max-c) COMP_CWORD=2
        _phalanx phalanx --max-c web
        echo "${COMPREPLY[@]}""#;
    let bash = Command::new("bash").args(["-c", script, env!("CARGO_BIN_EXE_phalanx")]).output();
    let Ok(output) = bash else { return eprintln!("SKIPPED: there is no bash") };
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "--max-connections", "{output:?}");
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
    for wanted in [r"\-\-max\-connections", "PHALANX_WEB_MAX_CONNECTIONS", "SIGHUP"] {
        assert!(web.contains(wanted), "{wanted}");
    }
    let file = home.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = phalanx(&["man", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("file"));
}

/// The flags of a command, from its `--help`: `-w`, `--workers`.
fn flags(command: &str) -> Vec<String> {
    let help = String::from_utf8(phalanx(&[command, "--help"]).stdout).unwrap();
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let words = lines.flat_map(|line| line.split_whitespace().take_while(|w| w.starts_with('-')));
    let names = words.map(|word| word.trim_end_matches([',', '.', ':']).to_owned());
    names.filter(|name| !["-h", "--help", "-"].contains(&name.as_str())).collect()
}

#[test]
fn every_flag_of_the_web_server_is_in_its_table() {
    let page = include_str!("../../../../docs/web.md");
    let rows: String = page.lines().filter(|line| line.starts_with("| `--")).collect();
    let flags = flags("web");
    assert!(flags.len() > 20, "{flags:?}");
    for flag in &flags {
        let documented = [format!("`{flag}`"), format!("`{flag} ")];
        assert!(documented.iter().any(|text| rows.contains(text)), "{flag} is not documented");
    }
    for text in rows.split('`').filter(|text| text.starts_with('-')) {
        let name = text.split(' ').next().unwrap();
        assert!(flags.iter().any(|flag| flag == name), "{text} is documented, and no flag");
    }
}

#[test]
fn every_flag_of_the_broker_is_documented() {
    let pages = [
        include_str!("../../../../docs/broker.md"),
        include_str!("../../../../docs/broker/configuration.md"),
        include_str!("../../../../docs/broker/access.md"),
        include_str!("../../../../docs/broker/journal.md"),
        include_str!("../../../../docs/broker/operating.md"),
        include_str!("../../../../docs/broker/transports.md"),
    ];
    for flag in flags("broker").iter().filter(|flag| flag.starts_with("--")) {
        // A flag that sets a key has the key's name.
        let key = [format!("`{}`", &flag[2..]), format!("`runtime.{}`", &flag[2..])];
        let documented =
            |page: &&str| page.contains(flag) || key.iter().any(|key| page.contains(key));
        assert!(pages.iter().any(documented), "{flag} is not documented");
    }
}
