//! Configurations in several files.

use std::fs;
use std::path::Path;

use phalanx_testkit::http::Client;
use phalanx_testkit::site::Site;

use crate::on_one_driver;
use crate::server::{Server, bare};

on_one_driver!(included_hosts_change_at_a_reload);

fn write(site: &Site, name: &str, text: &str) {
    let path = site.outside().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The exit code and the output of a command for the configuration `web.toml`.
fn run(directory: &Path, action: &str) -> (Option<i32>, String) {
    let output =
        bare().args(["web", action, "--config", "web.toml"]).current_dir(directory).output();
    let output = output.unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

fn included_hosts_change_at_a_reload(driver: &'static str) {
    let site = Site::new();
    site.file("a/index.html", "a");
    site.file("b/index.html", "b");
    write(&site, "hosts/b.toml", "[[host]]\nserver-names = 'b'\nroot = '../root/b'\n");
    write(&site, "hosts/a.toml", "[[host]]\nserver-names = 'a'\nroot = '../root/a'\n");
    write(&site, "hosts/.hidden.toml", "not = 'read'");
    let main = "include = 'hosts/*.toml'\nlisten = '127.0.0.1:0'\nunknown-host = '404'\n";
    let server = Server::configured(driver, site.outside(), main, &[]);
    let mut client = Client::connect(server.address);
    let mut ask = |host: &str| {
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let response = client.response();
        (response.status, String::from_utf8(response.body).unwrap())
    };
    assert_eq!((ask("a"), ask("b")), ((200, "a".into()), (200, "b".into())));
    assert_eq!(ask("c").0, 404);
    // A reload reads all files: changed, new and removed ones.
    write(&site, "hosts/c.toml", "[[host]]\nserver-names = 'c'\nroot = '../root/a'\n");
    write(&site, "hosts/b.toml", "[[host]]\nserver-names = 'b'\nroot = '../root/a'\n");
    fs::remove_file(site.outside().join("hosts/a.toml")).unwrap();
    assert!(server.reloaded().contains("version 2"));
    assert_eq!((ask("b"), ask("c")), ((200, "a".into()), (200, "a".into())));
    assert_eq!(ask("a").0, 404);
    // An error in an included file changes nothing.
    write(
        &site,
        "hosts/c.toml",
        "[[host]]\nserver-names = 'c'\nroot = '../root/b'\nlistin = true\n",
    );
    let output = server.reload();
    assert!(output.contains("phalanx: not reloaded"), "{output}");
    assert!(output.contains("hosts/c.toml:4:1: host[1].listin: unknown key"), "{output}");
    assert_eq!(ask("c"), (200, "a".into()));
}

#[test]
fn included_files_continue_the_configuration() {
    let site = Site::new();
    let main =
        "include = ['hosts/*.toml', 'limits.toml', 'none/*']\n[[host]]\nserver-names = 'main'\n";
    write(&site, "web.toml", main);
    write(
        &site,
        "hosts/1.toml",
        "include = 'deep/*'\n[[host]]\nserver-names = 'one'\nroot = 'www'\n",
    );
    write(&site, "hosts/2.toml", "host = [{ server-names = 'two' }]\n[runtime]\nworkers = 3\n");
    write(&site, "hosts/deep/x", "[[host]]\nserver-names = 'deep'\n");
    write(&site, "limits.toml", "max-connections = 7\n[runtime]\ndriver = 'poll'\n");
    let (code, output) = run(site.outside(), "--print-config");
    assert_eq!(code, Some(0), "{output}");
    for line in ["max-connections = 7", "workers = 3", "driver = \"poll\""] {
        assert!(output.lines().any(|other| other == line), "{line}: {output}");
    }
    let root = format!(
        "root = \"{}\"",
        site.outside().canonicalize().unwrap().join("hosts/www").display()
    );
    assert!(output.contains(&root), "relative to the included file: {output}");
    let names = output.lines().filter_map(|line| line.strip_prefix("server-names = "));
    assert_eq!(
        names.collect::<Vec<_>>(),
        [r#"["main"]"#, r#"["one"]"#, r#"["deep"]"#, r#"["two"]"#]
    );
}

#[test]
fn errors_name_the_file_and_the_line() {
    let site = Site::new();
    write(
        &site,
        "web.toml",
        "include = ['a.toml', 'b.toml']\nh2c = true\n[host]\nlisting = true\n",
    );
    let valid = "[host]\nroot = 'root'\n";
    write(&site, "b.toml", valid);
    for (text, error) in [
        ("\n[host]\nrot = 'x'", "a.toml:3:1: host.rot: unknown key"),
        ("h2c = ", "a.toml:1:7: "),
        ("\nh2c = true", "a.toml:2:7: h2c: is already set at web.toml:2:7"),
        ("host.listing = true", "a.toml:1:16: host.listing: is already set at web.toml:4:11"),
        ("\nhealth = 'x'", "a.toml:2:10: health: found \"x\", expected a path"),
        ("include = 'a.toml'", "a.toml:1:11: include: a.toml is included twice"),
        ("include = './b.toml'", "web.toml:1:11: include: b.toml is included twice"),
        ("include = 'web.toml'", "a.toml:1:11: include: web.toml is included twice"),
        ("include = 'c.toml'", "a.toml:1:11: include: cannot read c.toml: No such file"),
        ("include = 'roo*'", "a.toml:1:11: include: cannot read root: Is a directory"),
        ("include = '[a'", "a.toml:1:11: include: found \"[a\", which is not a valid glob"),
        ("include = 3", "a.toml:1:11: include: found 3, expected"),
    ] {
        write(&site, "a.toml", text);
        let (code, output) = run(site.outside(), "--check");
        assert_eq!(code, Some(2), "{text}: {output}");
        assert!(output.contains(error), "{text}: {output}");
    }
    write(&site, "a.toml", "");
    assert_eq!(run(site.outside(), "--check"), (Some(0), String::new()));
    // A key in another form of the same table.
    for (main, text, error) in [
        (
            "[[host]]\nroot = 'root'",
            "[host]\nroot = '.'",
            "host[0].root: is already set at web.toml:3:8",
        ),
        (
            "[host]\nroot = 'root'",
            "[host]\nroot = '.'",
            "host.root: is already set at web.toml:3:8",
        ),
        (
            "access-log = false",
            "[access-log]\nformat = 'json'",
            "access-log: is already set at web.toml:2:14",
        ),
        (
            "[access-log]\nformat = 'json'",
            "access-log = false",
            "access-log: is already set at web.toml:2:1",
        ),
    ] {
        write(&site, "web.toml", &format!("include = 'a.toml'\n{main}"));
        write(&site, "a.toml", text);
        let (code, output) = run(site.outside(), "--check");
        assert!(code == Some(2) && output.contains(error), "{main}, {text}: {output}");
    }
    write(&site, "web.toml", "include = 'a.toml'\n[[host]]\nproxy = ['/a=http://a']\n");
    write(&site, "a.toml", "[host]\nlisting = true\nproxy = ['/b=http://b']\n");
    let (code, output) = run(site.outside(), "--print-config");
    let contains = |text: &str| output.contains(text);
    assert_eq!(code, Some(0), "{output}");
    assert!(contains("http://a") && contains("http://b") && contains("listing = true"), "{output}");
    // A chain of files has an end, and so have their number and other sources of `include`.
    (0..9).for_each(|n| write(&site, &format!("{n}"), &format!("include = '{}'", n + 1)));
    write(&site, "web.toml", "include = '0'");
    let (code, output) = run(site.outside(), "--check");
    assert!(
        code == Some(2) && output.contains("7:1:11: include: \"8\" is more than 8 files deep"),
        "{output}"
    );
    (0..1000).for_each(|n| write(&site, &format!("many/{n}"), ""));
    write(&site, "web.toml", "include = 'many/*'");
    let (code, output) = run(site.outside(), "--check");
    assert!(code == Some(2) && output.contains("more than 1000 files"), "{output}");
    let set = bare().args(["web", "--check", "--set", "include = 'b.toml'"]).output().unwrap();
    let output = String::from_utf8(set.stderr).unwrap();
    assert!(
        set.status.code() == Some(2) && output.contains("only a configuration file"),
        "{output}"
    );
}
