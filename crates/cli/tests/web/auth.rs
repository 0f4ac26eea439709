//! Paths for those who have a password, asked by curl and by hand.

use std::fs;
use std::process::Command;

use rustix::process::Signal;

use crate::authority::Authority;
use crate::client::{Client, get};
use crate::curl::{curl, curl_well};
use crate::on_each_driver;
use crate::server::{Server, bare, eventually};
use crate::site::Site;

on_each_driver!(who_may_and_who_may_not, no_way_around, by_http2, while_it_runs);

/// By `htpasswd -nbB`: the password of eve is `apple`, that of adam `rib: ü`.
const USERS: &str = "eve:$2y$05$S/mVIKWr68CdjrqHTDjpi.6gEo.A9MT0cPoxs97RVEcxqRRom0j4e\n\
     adam:$2y$04$Tln9qjnheNhKhSrqEN6qAOdLkHDRWIeSQUROpBDi84XFI8Zi7hgNG\n";

/// `eve:apple`.
const EVE: &str = "Authorization: Basic ZXZlOmFwcGxl\r\n";

/// A server whose paths beneath `/private` are for its users.
fn start(driver: &str, site: &Site, more: &str) -> Server {
    fs::write(site.outside().join("users"), USERS).unwrap();
    let text = format!(
        "listen = '127.0.0.1:0'\n[host]\nroot = 'root'\nindex = ['index.html', 'other.html']\n{more}\n\
         [[host.auth]]\npath = '/private/**'\nrealm = 'the garden'\nusers = 'users'\n"
    );
    Server::configured(driver, site.outside(), &text, &[])
}

fn site() -> Site {
    let site = Site::new();
    for path in ["open", "private/file", "private/index.html", "private/deep/other.html"] {
        site.file(path, path);
    }
    site
}

fn who_may_and_who_may_not(driver: &'static str) {
    let site = site();
    site.file("denied.html", "no entry");
    let more = "error-pages = { 401 = '/denied.html' }\n[[host.cache-control]]\npath = '/**'\n\
                value = 'public, max-age=60'\n";
    let mut server = start(driver, &site, more);
    let url = |path: &str| format!("http://{}{path}", server.address);
    assert_eq!(curl_well(&[&url("/open")]), "open");
    for (who, good) in [
        ("eve:apple", true),
        ("eve:apple", true),
        ("adam:rib: ü", true),
        ("eve:rib: ü", false),
        ("eve:", false),
        ("eve:apple ", false),
        ("Eve:apple", false),
        ("snake:apple", false),
        (":", false),
    ] {
        let output = curl(&["-u", who, "-w", " %{http_code}", &url("/private/file")]);
        let wanted = if good { "private/file 200" } else { "no entry 401" };
        assert_eq!(String::from_utf8_lossy(&output.stdout), wanted, "{who}");
    }
    let mut client = Client::connect(server.address);
    for lines in [
        "",
        "Authorization: Basic\r\n",
        "Authorization: Basic !!!\r\n",
        "Authorization: Bearer ZXZlOmFwcGxl\r\n",
        &format!("{EVE}{EVE}"),
    ] {
        let denied = client.get_with("/private/file", lines);
        assert_eq!((denied.status, &denied.body[..]), (401, &b"no entry"[..]), "{lines}");
        let asked = "Basic realm=\"the garden\", charset=\"UTF-8\"";
        assert_eq!(denied.field("www-authenticate"), Some(asked));
        assert_eq!(denied.field("cache-control"), Some("no-store"));
    }
    // The connection goes on, and what is let in is for nobody else's cache.
    let response = client.get_with("/private/file", EVE);
    assert_eq!((response.status, &response.body[..]), (200, &b"private/file"[..]));
    assert_eq!(response.field("cache-control"), Some("private, max-age=60"));
    assert_eq!(client.get("/open").field("cache-control"), Some("public, max-age=60"));
    assert_eq!(client.head_with("/private/file", "").status, 401);
    assert_eq!(client.head_with("/private/file", EVE).status, 200);
    server.signal(Signal::TERM);
    server.exits_well(crate::server::TIMEOUT);
}

/// All paths that lead to a file ask, however they are written, and whether there is a file or not.
fn no_way_around(driver: &'static str) {
    let site = site();
    site.file("pages/secret.key", "key");
    // For whoever asks for the directory: by the file's own path.
    site.file("pages/index.html", "index");
    let more = "listing = true\n\
        [[host.rewrite]]\nfrom = '/short/**'\nto = '/private/$rest'\n\
        [[host.redirect]]\nfrom = '/private/gone'\nto = '/open'\n\
        [[host.auth]]\npath = '*.key'\nusers = 'users'\n\
        [[host.auth]]\npath = '/pages/index.html'\nusers = 'users'\n";
    let server = start(driver, &site, more);
    let mut client = Client::connect(server.address);
    for path in [
        "/private",
        "/private/",
        "/private/file",
        "//private//file",
        "/%70rivate/file",
        "/private/./file",
        "/private/none",
        "/private/gone",
        "/private/deep",
        "/private/deep/",
        "/private/deep/?sort=size",
        "/short/file",
        "/short/",
        "/short/deep/",
        "/pages/secret.key",
        "/pages/none.key",
        "/pages/",
        "/pages/index.html",
    ] {
        let denied = client.get(path);
        assert_eq!(denied.status, 401, "{path}: {}", String::from_utf8_lossy(&denied.body));
        let told = client.get_with(path, EVE).status;
        assert!([200, 301, 308, 404].contains(&told), "{path}: {told}");
    }
    for (path, status) in [("/privat", 404), ("/privates", 404), ("/pages/x", 404), ("/open", 200)]
    {
        assert_eq!(client.get(path).status, status, "{path}");
    }
    // Nobody needs a password to be told what he may do, nor that it is nothing.
    client.send("OPTIONS /private/file HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.response().status, 204);
    client.send("DELETE /private/file HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.response().status, 405);
}

fn by_http2(driver: &'static str) {
    let site = site();
    fs::write(site.outside().join("users"), USERS).unwrap();
    let authority = Authority::new();
    let pair = authority.sign("a", &["a.test"]);
    let [_, certificate, _, key] = pair.arguments();
    let text = format!(
        "listen = 'tls:127.0.0.1:0'\naccess-log.target = '{}'\n[host]\nroot = 'root'\n\
         tls = {{ certificate = {certificate:?}, key = {key:?} }}\n\
         [[host.auth]]\npath = '/private/**'\nusers = 'users'\n",
        site.outside().join("log").display()
    );
    let server = Server::configured(driver, site.outside(), &text, &[]);
    let port = server.address.port();
    let resolve = format!("a.test:{port}:127.0.0.1");
    let trusted = authority.certificate();
    let ask = |more: &[&str]| {
        let url = format!("https://a.test:{port}/private/file");
        let own = ["--cacert", trusted.to_str().unwrap(), "--resolve", &resolve, &url];
        let own = [&own[..], &["-w", " %{http_code} %{http_version}", "-o", "-"], more].concat();
        String::from_utf8(curl(&own).stdout).unwrap()
    };
    assert!(ask(&["--http2"]).ends_with(" 401 2"));
    assert_eq!(ask(&["--http2", "-u", "eve:apple"]), "private/file 200 2");
    assert_eq!(ask(&["--http1.1", "-u", "eve:apple"]), "private/file 200 1.1");
    // Who has asked is written down, and only of who was let in.
    assert!(ask(&["--http1.1", "-u", "adam:apple"]).ends_with(" 401 1.1"));
    let lines = eventually("four lines", || {
        let text = fs::read_to_string(site.outside().join("log")).unwrap();
        (text.lines().count() == 4).then_some(text)
    });
    let users: Vec<_> = lines.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(users, ["-", "eve", "eve", "-"], "{lines}");
}

/// Users come and go by a reload: also those who are known.
fn while_it_runs(driver: &'static str) {
    let site = site();
    let server = start(driver, &site, "");
    let mut client = Client::connect(server.address);
    let reload = |users: &str| {
        fs::write(site.outside().join("users"), users).unwrap();
        let before = server.stderr().len();
        server.signal(Signal::HUP);
        eventually("a word on the reload", || {
            let said = server.stderr()[before..].to_owned();
            (said.contains("reloaded") && said.ends_with('\n')).then_some(said)
        })
    };
    assert_eq!(client.get_with("/private/file", EVE).status, 200);
    let adam = USERS.lines().nth(1).unwrap();
    reload(adam);
    assert_eq!(client.get_with("/private/file", EVE).status, 401);
    // A file that is wrong leaves things as they were.
    let said = reload("eve:apple");
    assert!(said.contains("users:1: the password of \"eve\"") && said.contains("not reloaded"));
    assert_eq!(client.get_with("/private/file", EVE).status, 401);
    reload(USERS);
    assert_eq!(client.get_with("/private/file", EVE).status, 200);
    // Without the rule all may.
    fs::write(site.outside().join("web.toml"), "listen = '127.0.0.1:0'\nhost.root = 'root'")
        .unwrap();
    reload(USERS);
    assert_eq!(client.get("/private/file").body, b"private/file");
}

/// Many who guess at once: all are told no, and who is known is not kept waiting by them.
#[test]
fn guessing_keeps_nobody_out() {
    let site = site();
    let server = start("poll", &site, "");
    let mut known = Client::connect(server.address);
    assert_eq!(known.get_with("/private/file", EVE).status, 200);
    let mut guessers: Vec<_> = (0..100).map(|_| Client::connect(server.address)).collect();
    for (n, guesser) in guessers.iter_mut().enumerate() {
        let guess = ["ZXZlOmE=", "YWRhbTph", "eDp5"][n % 3];
        guesser.send(format!(
            "GET /private/file HTTP/1.1\r\nHost: h\r\nAuthorization: Basic {guess}\r\n\r\n"
        ));
    }
    for _ in 0..10 {
        assert_eq!(known.get_with("/private/file", EVE).body, b"private/file");
        assert_eq!(get(server.address, "/open").body, b"open");
    }
    for guesser in &mut guessers {
        // More than may wait are told to come again.
        let status = guesser.response().status;
        assert!([401, 503].contains(&status), "{status}");
    }
}

#[test]
fn what_is_wrong_with_users_is_told() {
    let site = site();
    let file = site.outside().join("web.toml");
    let users = site.outside().join("users");
    let check = |text: &str, listen: &str, place: &str| {
        fs::write(&users, text).unwrap();
        let text = format!("listen = '{listen}'\nhost.root = 'root'\n{place}");
        fs::write(&file, text).unwrap();
        let output = bare().args(["web", "--check", "--config"]).arg(&file).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let rule = "[[host.auth]]\nusers = 'users'";
    assert_eq!(check(USERS, "127.0.0.1:80", rule), (Some(0), String::new()));
    // (users, address, rule, exit code, what is said)
    let apr1 = "a:$apr1$To7pGVxw$DkPvt3wBQAWydgOyWWcBW.\nb:{SHA}EfatjsUqKYSrqv18O1FlA3hcIHI=";
    let table = [
        (
            apr1,
            "127.0.0.1:80",
            rule,
            1,
            &["users:1:", "users:2:", "MD5", "SHA-1", "htpasswd -B"][..],
        ),
        ("", "127.0.0.1:80", rule, 1, &["there is no user"]),
        (USERS, "0.0.0.0:80", rule, 0, &["at 0.0.0.0:80 without TLS"]),
        (USERS, "127.0.0.1:80", "[[host.auth]]\nusers = 'none'", 1, &["cannot read", "none"]),
        (USERS, "127.0.0.1:80", "[[host.auth]]\npath = '/'", 2, &["users"]),
        (USERS, "127.0.0.1:80", &format!("{rule}\nrealm = 'a\"b'"), 2, &["realm", "plain words"]),
        (USERS, "127.0.0.1:80", &format!("{rule}\npath = '['"), 2, &["auth[0].path"]),
    ];
    for (users, listen, rule, code, wanted) in table {
        let (found, said) = check(users, listen, rule);
        assert_eq!(found, Some(code), "{said}");
        assert!(wanted.iter().all(|wanted| said.contains(wanted)), "{wanted:?}: {said}");
    }
    fs::write(site.root().join("users"), USERS).unwrap();
    let (code, said) = check(USERS, "127.0.0.1:80", "[[host.auth]]\nusers = 'root/users'");
    assert!(code == Some(0) && said.contains("beneath a host's root"), "{said}");
    // Nor is anything served by such a configuration.
    fs::write(&users, apr1).unwrap();
    fs::write(&file, format!("listen = '127.0.0.1:0'\nhost.root = 'root'\n{rule}")).unwrap();
    let output = bare().args(["web", "--config"]).arg(&file).output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b""[..]));
}

/// What the tool of today writes.
#[test]
fn htpasswd_is_understood() {
    let site = site();
    let Ok(made) = Command::new("htpasswd").args(["-nbB", "eve", "apple"]).output() else {
        println!("skipped: there is no htpasswd");
        return;
    };
    let server = start("poll", &site, "");
    fs::write(site.outside().join("users"), made.stdout).unwrap();
    server.signal(Signal::HUP);
    eventually("the reload", || server.stderr().contains("version 2").then_some(()));
    let mut client = Client::connect(server.address);
    assert_eq!(client.get_with("/private/file", EVE).status, 200);
}
