//! Configuration from the outside: a file, the environment and flags, in their order.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use phalanx_mqtt::{Reason, Version};
use tempfile::TempDir;

use crate::authority::Authority;
use crate::broker::Broker;
use crate::client::{Begin, Client};
use crate::server::bare;

crate::on_each_driver!(a_file_is_followed,);

fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// What `phalanx broker` would follow.
fn printed(command: &mut Command) -> String {
    let (code, stdout, stderr) = run(command);
    assert_eq!((code, &stderr[..]), (Some(0), ""), "{command:?}");
    stdout
}

fn print(arguments: &[&str]) -> Command {
    let mut command = bare();
    command.args(["broker", "--print-config"]).args(arguments);
    command
}

/// Flags win over the environment, that over --set, that over the file, that over the default.
#[test]
fn the_nearer_wins() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("broker.toml");
    let text = "
        max-sessions = 1
        max-subscriptions = 1
        max-queue = 1
        max-connections = 1
        listen = ['127.0.0.1:1', 'ws://127.0.0.1:2']
        data = 'kept'
        ephemeral = false
    ";
    fs::write(&file, text).unwrap();
    let mut command = print(&["--max-queue", "4", "--ws-listen", "127.0.0.1:3", "--ephemeral"]);
    command.args(["--set", "max-subscriptions = 2", "--set", "max-connections = 2"]);
    command.args(["--set", "max-queue = 2"]).env("PHALANX_CONFIG", &file);
    command.env("PHALANX_MAX_QUEUE", "3").env("PHALANX_MAX_CONNECTIONS", "3");
    let stdout = printed(&mut command);
    for line in [
        "max-sessions = 1",
        "max-subscriptions = 2",
        "max-connections = 3",
        "max-queue = 4",
        "listen = [\"ws://127.0.0.1:3\"]",
        "data = false",
        "ephemeral = true",
    ] {
        assert!(stdout.lines().any(|other| other == line), "{line}:\n{stdout}");
    }
    // What was printed is a configuration, and the same.
    let again = home.path().join("again.toml");
    fs::write(&again, &stdout).unwrap();
    assert_eq!(printed(print(&["--config"]).arg(&again)), stdout);
    // The directory that the file names begins where the file is, wherever that is read.
    let elsewhere = printed(print(&["--config"]).arg(&file).current_dir("/"));
    let data = format!("data = \"{}\"", home.path().join("kept").display());
    assert!(elsewhere.contains(&data), "{elsewhere}");
    // And --data takes the place of `ephemeral`.
    let data = printed(&mut print(&["--set", "ephemeral = true", "--data", "/d"]));
    assert!(data.contains("ephemeral = false") && data.contains("data = \"/d\""), "{data}");
}

/// Each flag: its value, what it is to be given with, and its key.
const FLAGS: &[(&str, &str, &[&str], &str)] = &[
    ("listen", "mqtt://127.0.0.1:5", &[], "listen"),
    ("tls-listen", "127.0.0.1:5", &["--tls-certificate=c", "--tls-key=k"], "listen"),
    ("ws-listen", "127.0.0.1:5", &[], "listen"),
    ("wss-listen", "127.0.0.1:5", &["--tls-certificate=c", "--tls-key=k"], "listen"),
    ("tls-certificate", "c", &["--tls-key=k"], "certificate"),
    ("tls-key", "k", &["--tls-certificate=c"], "key"),
    ("tls-client-ca", "a", &["--tls-certificate=c", "--tls-key=k"], "client-ca"),
    ("ws-origin", "https://a", &[], "ws-origin"),
    ("data", "d", &[], "data"),
    ("ephemeral", "", &[], "ephemeral"),
    ("passwords", "p", &[], "passwords"),
    ("access", "a", &[], "access"),
    ("allow-anonymous", "", &[], "allow-anonymous"),
    ("max-packet", "64K", &[], "max-packet"),
    ("max-connections", "5", &[], "max-connections"),
    ("max-connections-per-address", "5", &[], "max-connections-per-address"),
    ("max-connection-rate", "5", &[], "max-connection-rate"),
    ("max-message-rate", "5", &[], "max-message-rate"),
    ("max-subscriptions", "5", &[], "max-subscriptions"),
    ("drop-oldest", "", &[], "drop-oldest"),
    ("max-keep-alive", "5", &[], "max-keep-alive"),
    ("max-queue", "5", &[], "max-queue"),
    ("sys-interval", "5", &[], "sys-interval"),
    ("processors", "7", &[], "processors"),
    ("driver", "poll", &[], "driver"),
    ("admin", "127.0.0.1:5", &[], "admin"),
    ("admin-public", "", &["--admin=127.0.0.1:5"], "admin-public"),
    ("drain", "5", &[], "drain"),
    ("spin", "5", &[], "spin"),
    ("hold", "5", &[], "hold"),
    ("long-operation", "5", &[], "long-operation"),
    ("core-cache", "64K", &[], "core-cache"),
    ("no-pin", "", &[], "pin"),
];

/// Those that say what is done, and not how.
const ACTIONS: [&str; 6] = ["config", "set", "check", "print-config", "check-data", "help"];

/// What is set by each flag is a key of the file, and is set by its environment variable alike.
#[test]
fn every_flag_has_a_key_and_a_variable() {
    let (_, help, _) = run(bare().args(["broker", "--help"]));
    let flag = |line: &str| {
        // What is said of a flag is further in.
        let is_flag = line.trim_start().starts_with('-') && !line.starts_with("        ");
        let (_, name) = line.split_once("--").filter(|_| is_flag)?;
        Some(name.split(|c: char| c != '-' && !c.is_ascii_alphanumeric()).next()?.to_owned())
    };
    let flags: Vec<String> = help.lines().filter_map(flag).collect();
    assert!(flags.len() > 30, "{flags:?}");
    for flag in flags.iter().filter(|flag| !ACTIONS.contains(&&flag[..])) {
        assert!(FLAGS.iter().any(|(name, ..)| name == flag), "--{flag}: say what its key is");
    }
    let before = printed(&mut print(&[]));
    for (name, value, with, key) in FLAGS {
        assert!(flags.iter().any(|flag| flag == name), "--{name} is no flag");
        let given =
            if value.is_empty() { format!("--{name}") } else { format!("--{name}={value}") };
        let by_flag = printed(print(with).arg(given));
        let variable = format!("PHALANX_{}", name.to_uppercase().replace('-', "_"));
        let value = if value.is_empty() { "true" } else { value };
        let by_variable = printed(print(with).env(&variable, value));
        assert_eq!(by_flag, by_variable, "{variable}");
        let is_new = |line: &&str| !before.lines().any(|other| other == *line);
        let new: Vec<&str> = by_flag.lines().filter(is_new).collect();
        let line = format!("{key} = ");
        assert!(new.iter().any(|other| other.starts_with(&line)), "--{name}: {new:?}");
    }
}

/// A directory with all that a configuration may name.
fn files() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let users = phalanx_access::passwd::set("", "eve", b"apple").unwrap();
    fs::write(home.path().join("users"), users).unwrap();
    fs::write(home.path().join("rules"), "user eve\ntopic write garden/#\n").unwrap();
    home
}

#[test]
fn a_check_tells_all_and_ends() {
    let home = files();
    let file = home.path().join("broker.toml");
    let check = |text: &str| {
        fs::write(&file, text).unwrap();
        run(bare().args(["broker", "--check", "--config"]).arg(&file))
    };
    let authority = Authority::new();
    let pair = authority.sign("a", &["localhost"]);
    let path = |path: &Path| path.display().to_string();
    let tls = format!(
        "[tls]\ncertificate = '{}'\nkey = '{}'\nclient-ca = '{}'\n",
        path(&pair.certificate),
        path(&pair.key),
        path(&authority.certificate())
    );
    let all = "passwords = 'users'\naccess = 'rules'\ndata = 'kept/here'\n";
    assert_eq!(check(&format!("{all}{tls}")), (Some(0), String::new(), String::new()));
    assert!(!home.path().join("kept").exists(), "nothing is made");
    // What is named and not there, all of it.
    let none = "passwords = 'no-users'\naccess = 'no-rules'\ndata = 'users'\n\
                [tls]\ncertificate = 'no.pem'\nkey = 'no.key'\nclient-ca = 'no.ca'\n";
    let (code, stdout, stderr) = check(none);
    assert_eq!((code, &stdout[..]), (Some(1), ""));
    for named in ["no-users", "no-rules", "/users", "no.pem", "no.ca"] {
        assert!(stderr.lines().any(|line| line.contains(named)), "{named}: {stderr}");
    }
    assert!(stderr.lines().all(|line| line.starts_with("phalanx: ")), "{stderr}");
    // What is there and wrong.
    fs::write(home.path().join("rules"), "topic grant #\n").unwrap();
    let (code, _, stderr) = check("access = 'rules'");
    assert!(code == Some(1) && stderr.contains("rules"), "{stderr}");
    // Mistakes.
    let (code, stdout, stderr) = check("max-que = 1\nmax-queue = 'x'");
    assert_eq!((code, &stdout[..], stderr.lines().count()), (Some(2), "", 2), "{stderr}");
    let place = format!("phalanx: {}:1:1: max-que: ", file.display());
    let told = |line: &str| line.starts_with(&place) && line.contains("`max-queue`");
    assert!(stderr.lines().any(told), "{stderr}");
    // Without --check nobody is let in either.
    let (code, stdout, _) = run(bare().args(["broker", "--config"]).arg(&file));
    assert_eq!((code, &stdout[..]), (Some(2), ""));
    let (code, _, stderr) = run(bare().args(["broker", "--config", "/nowhere/at/all"]));
    assert!(code == Some(2) && stderr.contains("/nowhere/at/all"), "{stderr}");
    let (code, _, stderr) = run(bare().args(["broker", "--max-packet", "5"]));
    assert!(code == Some(2) && stderr.contains("--max-packet: max-packet: found 5"), "{stderr}");
    let (code, _, stderr) = run(bare().args(["broker", "--listen", "http://127.0.0.1:1"]));
    assert!(code == Some(2) && stderr.contains("mqtts://"), "{stderr}");
}

fn a_file_is_followed(driver: &str) {
    let home = files();
    let file = home.path().join("broker.toml");
    let text = "listen = ['127.0.0.1:0', 'ws://127.0.0.1:0']\npasswords = 'users'\naccess = 'rules'\n\
                max-queue = 10\n";
    fs::write(&file, text).unwrap();
    let broker = Broker::start_by(driver, &file);
    broker.next_address();
    assert_eq!(Client::refused(&broker, &Begin::of(Version::V5, "a")), Reason::NOT_AUTHORIZED);
    let eve = Begin { login: Some(("eve", "apple")), ..Begin::of(Version::V5, "a") };
    let (mut eve, _) = Client::begin(&broker, &eve);
    assert_eq!(eve.publish("garden/tree", "x"), Reason::NO_MATCHING_SUBSCRIBERS);
    assert_eq!(eve.publish("elsewhere", "x"), Reason::NOT_AUTHORIZED);
}
