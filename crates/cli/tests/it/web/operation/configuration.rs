//! Configuration by file, environment and flags, and their precedence.

use std::fs;
use std::process::{Command, Output};

use phalanx_testkit::http::get;
use phalanx_testkit::site::Site;

use crate::server::{Server, bare};

fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// The configuration in the Debian package.
#[test]
fn the_packaged_configuration_is_valid() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/debian/web.toml");
    let (code, full, stderr) = run(bare().args(["web", "--print-config", "--config", file]));
    assert_eq!((code, &stderr[..]), (Some(0), ""));
    assert!(full.contains("listen = [\"http://127.0.0.1:8080\"]"), "{full}");
}

/// Precedence: flag, environment variable, --set, file, default.
#[test]
fn sources_have_an_order_of_precedence() {
    let site = Site::new();
    let file = site.outside().join("web.toml");
    let text = "
        cache = 1
        max-open-files = 1
        max-connections = 1
        host.root = 'root'
        idle-timeout = '1s'
    ";
    fs::write(&file, text).unwrap();
    let mut command = bare();
    command
        .args(["web", "--print-config", "--idle-timeout", "4s"])
        .args(["--set", "max-connections = 2", "--set", "max-open-files = 2"])
        .args(["--set", "idle-timeout = '2s'"])
        .env("PHALANX_WEB_CONFIG", &file)
        .env("PHALANX_WEB_IDLE_TIMEOUT", "3s")
        .env("PHALANX_WEB_MAX_CONNECTIONS", "3");
    let (code, stdout, stderr) = run(&mut command);
    assert_eq!((code, &stderr[..]), (Some(0), ""));
    for line in ["cache = 1", "max-open-files = 2", "max-connections = 3", "idle-timeout = \"4s\""]
    {
        assert!(stdout.lines().any(|other| other == line), "{line}:\n{stdout}");
    }
    // The printed text is an equivalent configuration.
    let reread = site.outside().join("again.toml");
    fs::write(&reread, &stdout).unwrap();
    let (_, twice, _) = run(bare().args(["web", "--print-config", "--config"]).arg(&reread));
    assert_eq!(twice, stdout);
}

/// A flag precedes each variable, also those of a directory and of keys below a table that the flag turns off.
#[test]
fn flags_precede_variables() {
    let site = Site::new();
    let root = site.root().display().to_string();
    let mut command = bare();
    command.args(["web", "--print-config", "--access-log=false", &root]);
    command.env("PHALANX_WEB_ROOT", "/").env("PHALANX_WEB_ACCESS_LOG_FORMAT", "json");
    let (code, stdout, stderr) = run(&mut command);
    assert_eq!((code, &stderr[..]), (Some(0), ""));
    assert!(stdout.contains(&format!("root = \"{root}\"")), "{stdout}");
    assert!(stdout.contains("access-log = false"), "{stdout}");
    let mut command = bare();
    command.args(["web", "--print-config", "-p", "4"]).env("PHALANX_WEB_LISTEN", "127.0.0.1:5");
    let (_, stdout, stderr) = run(&mut command);
    assert!(stdout.contains("listen = [\"http://127.0.0.1:4\"]"), "{stdout}{stderr}");
    let (code, _, stderr) = run(bare().args(["web", "--check", "--root", "/", &root]));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("DIRECTORY cannot be used with --root"), "{stderr}");
}

#[test]
fn a_value_of_set_may_have_several_lines() {
    let redirects = "idle-timeout = '''\n4s'''\n[runtime]\nworkers = 3";
    for command in [
        bare().args(["web", "--print-config", "--set", redirects]),
        bare().args(["web", "--print-config"]).env("PHALANX_WEB_SET", redirects),
    ] {
        let (code, stdout, stderr) = run(command);
        assert_eq!((code, &stderr[..]), (Some(0), ""));
        assert!(stdout.contains("idle-timeout = \"4s\"") && stdout.contains("workers = 3"));
    }
}

/// Output that cannot be printed is an error, and no panic.
#[test]
fn a_full_output_is_reported() {
    for arguments in [&["web", "--print-config"][..], &["broker", "--import", "/dev/null"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (code, _, stderr) = run(bare().args(arguments).stdout(full));
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains("cannot print: No space left"), "{stderr}");
    }
}

/// Relative paths, including the default root, are based at the current directory of the command that prints.
#[test]
fn the_printed_configuration_is_independent_of_the_directory() {
    let (site, other) = (Site::new(), Site::new());
    let directory = site.outside().canonicalize().unwrap();
    let print = |arguments: &[&str]| {
        let mut command = bare();
        command.current_dir(&directory).args(["web", "--print-config"]).args(arguments);
        let (code, stdout, stderr) = run(&mut command);
        assert_eq!((code, &stderr[..]), (Some(0), ""));
        stdout
    };
    let output = print(&["--set", "access-log.target = './log'"]);
    for path in [directory.clone(), directory.join("log")] {
        assert!(output.contains(&format!("\"{}\"", path.display())), "{path:?}:\n{output}");
    }
    let other_dir = other.outside().join("web.toml");
    fs::write(&other_dir, &output).unwrap();
    assert_eq!(print(&["--config", other_dir.to_str().unwrap()]), output);
}

#[test]
fn a_check_reports_all_errors() {
    let site = Site::new();
    let file = site.outside().join("web.toml");
    let check = |text: &str| {
        fs::write(&file, text).unwrap();
        run(bare().args(["web", "--check", "--config"]).arg(&file))
    };
    assert_eq!(check("[host]\nroot = 'root'"), (Some(0), String::new(), String::new()));
    let (code, stdout, stderr) = check("[host]\nroot = 'missing'");
    assert_eq!((code, &stdout[..]), (Some(1), ""));
    assert!(stderr.contains("missing"), "{stderr}");
    let (code, stdout, stderr) = check("[host]\nrot = 'root'\nlisting = 3");
    assert_eq!((code, &stdout[..]), (Some(2), ""));
    let place = format!("phalanx: {}:", file.display());
    assert!(stderr.lines().count() == 2 && stderr.lines().all(|line| line.starts_with(&place)));
    // Paths within the root and outside of it.
    site.file("404.html", "gone");
    std::os::unix::fs::symlink("404.html", site.root().join("link.html")).unwrap();
    std::os::unix::fs::symlink("../web.toml", site.root().join("out.html")).unwrap();
    fs::create_dir(site.root().join("dir")).unwrap();
    let host = |args: &str| format!("[host]\nroot = 'root'\n{args}");
    let well = host("error-pages = '404=404.html'\nfallback = '/404.html'");
    assert_eq!(check(&well), (Some(0), String::new(), String::new()));
    let followed = host("error-pages = ['404=link.html']\nsymlinks = 'follow'");
    assert_eq!(check(&followed), (Some(0), String::new(), String::new()));
    let pages = "error-pages = ['404=no.html', '403=link.html', '500=out.html', '503=dir']";
    let (code, _, stderr) =
        check(&host(&format!("{pages}\nfallback = 'app.html'\nsymlinks = 'deny'")));
    assert_eq!((code, stderr.lines().count()), (Some(1), 5), "{stderr}");
    for (page, reason) in [
        ("the page for 404, no.html", "No such file"),
        ("the page for 403, link.html", "`symlinks` denies"),
        ("the page for 500, out.html", "`symlinks` denies"),
        ("the page for 503, dir", "is not a file"),
        ("the fallback, app.html", "No such file"),
    ] {
        let is_reported = |line: &str| line.contains(page) && line.contains(reason);
        assert!(stderr.lines().any(is_reported), "{page}: {stderr}");
    }
    // Certificates are checked even without a TLS address, for each host.
    let tls = |name: &str| format!("[host.tls]\ncertificate = '{name}.crt'\nkey = '{name}.key'\n");
    let hosts = ["a", "b"]
        .map(|name| format!("[[host]]\nserver-names = ['{name}']\nroot = 'root'\n{}", tls(name)));
    let log = format!("[access-log]\ntarget = '{}'\n", site.outside().join("no/log").display());
    let (code, _, stderr) = check(&(log + &hosts.concat()));
    assert!(code == Some(1) && stderr.lines().count() == 3, "{stderr}");
    assert!(
        stderr.contains("a.crt") && stderr.contains("b.crt") && stderr.contains("no/log"),
        "{stderr}"
    );
    // Without --check the server does not start either.
    fs::write(&file, "[host]\nrot = 'root'").unwrap();
    let (code, stdout, _) = run(bare().args(["web", "--config"]).arg(&file));
    assert_eq!((code, &stdout[..]), (Some(2), ""));
    let (code, _, stderr) = run(bare().args(["web", "--config", "/nowhere/at/all"]));
    assert!(code == Some(2) && stderr.contains("/nowhere/at/all"), "{stderr}");
    let (code, _, stderr) = run(bare().args(["web", "--set", "cash=1"]));
    assert!(code == Some(2) && stderr.contains("--set cash:1:1: ") && stderr.contains("`cache`"));
}

#[test]
fn several_addresses() {
    let site = Site::new();
    site.file("file", "content");
    let mut command = bare();
    command.arg("web").arg(site.root()).args(["--workers", "2"]);
    command.args(["--listen", "127.0.0.1:0", "--listen", "[::1]:0"]);
    let server = Server::launch(command);
    assert_eq!(get(server.address, "/file").body, b"content");
    let second = server.line();
    let second = second.strip_prefix("listening on http://").unwrap().parse().unwrap();
    assert_eq!(get(second, "/file").body, b"content");
}
