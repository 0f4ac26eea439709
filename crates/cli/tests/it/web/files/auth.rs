//! Paths with passwords, requested with curl and byte by byte.

use std::fs;
use std::process::Command;

use phalanx_testkit::authority::Authority;
use phalanx_testkit::eventually;
use phalanx_testkit::http::{Client, get};
use phalanx_testkit::process::{curl, curl_output};
use phalanx_testkit::site::Site;
use rustix::process::Signal;

use crate::on_each_driver;
use crate::server::{Server, bare};

on_each_driver!(
    only_users_of_the_rule_have_access,
    every_spelling_is_protected,
    by_http2,
    users_are_reloaded
);

/// By `htpasswd -nbB`: the password of eve is `apple`, that of adam `rib: ü`.
const USERS: &str = "eve:$2y$05$S/mVIKWr68CdjrqHTDjpi.6gEo.A9MT0cPoxs97RVEcxqRRom0j4e\n\
     adam:$2y$04$Tln9qjnheNhKhSrqEN6qAOdLkHDRWIeSQUROpBDi84XFI8Zi7hgNG\n";

/// `eve:apple`.
const EVE: &str = "Authorization: Basic ZXZlOmFwcGxl\r\n";

/// A server with users for the paths beneath `/private`.
fn start(driver: &str, site: &Site, args: &str) -> Server {
    fs::write(site.outside().join("users"), USERS).unwrap();
    let text = format!(
        "listen = '127.0.0.1:0'\n[host]\nroot = 'root'\nindex = ['index.html', 'other.html']\n{args}\n\
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

fn only_users_of_the_rule_have_access(driver: &'static str) {
    let site = site();
    site.file("denied.html", "no entry");
    let args = "error-pages = '401=/denied.html'\n[[host.cache-control]]\npath = '/**'\n\
                value = 'public, max-age=60'\n";
    let mut server = start(driver, &site, args);
    let url = |path: &str| format!("http://{}{path}", server.address);
    assert_eq!(curl_output(&[&url("/open")]), "open");
    for (who, is_allowed) in [
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
        let expected = if is_allowed { "private/file 200" } else { "no entry 401" };
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{who}");
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
        let challenge = "Basic realm=\"the garden\", charset=\"UTF-8\"";
        assert_eq!(denied.field("www-authenticate"), Some(challenge));
        assert_eq!(denied.field("cache-control"), Some("no-store"));
    }
    // The connection stays open, and private responses are not for shared caches.
    let response = client.get_with("/private/file", EVE);
    assert_eq!((response.status, &response.body[..]), (200, &b"private/file"[..]));
    assert_eq!(response.field("cache-control"), Some("private, max-age=60"));
    assert_eq!(client.get("/open").field("cache-control"), Some("public, max-age=60"));
    assert_eq!(client.head_with("/private/file", "").status, 401);
    assert_eq!(client.head_with("/private/file", EVE).status, 200);
    server.signal(Signal::TERM);
    server.expect_success();
}

/// Every spelling of a path to a file requires the password, whether the file exists or not.
fn every_spelling_is_protected(driver: &'static str) {
    let site = site();
    site.file("pages/secret.key", "key");
    // The index of a directory is protected by the file's own path.
    site.file("pages/index.html", "index");
    let args = "listing = true\n\
        [[host.rewrite]]\nfrom = '/short/**'\nto = '/private/$rest'\n\
        [[host.redirect]]\nfrom = '/private/gone'\nto = '/open'\n\
        [[host.auth]]\npath = '*.key'\nusers = 'users'\n\
        [[host.auth]]\npath = '/pages/index.html'\nusers = 'users'\n";
    let server = start(driver, &site, args);
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
        let status = client.get_with(path, EVE).status;
        assert!([200, 301, 308, 404].contains(&status), "{path}: {status}");
    }
    for (path, status) in [("/privat", 404), ("/privates", 404), ("/pages/x", 404), ("/open", 200)]
    {
        assert_eq!(client.get(path).status, status, "{path}");
    }
    client.send("OPTIONS /private/file HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.response().status, 401);
    // An unsupported method needs no password.
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
        "listen = 'https://127.0.0.1:0'\naccess-log.target = '{}'\n[host]\nroot = 'root'\n\
         tls = {{ certificate = {certificate:?}, key = {key:?} }}\n\
         [[host.auth]]\npath = '/private/**'\nusers = 'users'\n",
        site.outside().join("log").display()
    );
    let server = Server::configured(driver, site.outside(), &text, &[]);
    let port = server.address.port();
    let resolve = format!("a.test:{port}:127.0.0.1");
    let ca = authority.certificate();
    let ask = |args: &[&str]| {
        let url = format!("https://a.test:{port}/private/file");
        let own = ["--cacert", ca.to_str().unwrap(), "--resolve", &resolve, &url];
        let own = [&own[..], &["-w", " %{http_code} %{http_version}", "-o", "-"], args].concat();
        String::from_utf8(curl(&own).stdout).unwrap()
    };
    assert!(ask(&["--http2"]).ends_with(" 401 2"));
    assert_eq!(ask(&["--http2", "-u", "eve:apple"]), "private/file 200 2");
    assert_eq!(ask(&["--http1.1", "-u", "eve:apple"]), "private/file 200 1.1");
    // The log contains the user name only of authenticated requests.
    assert!(ask(&["--http1.1", "-u", "adam:apple"]).ends_with(" 401 1.1"));
    let lines = eventually("four lines", || {
        let text = fs::read_to_string(site.outside().join("log")).unwrap();
        (text.lines().count() == 4).then_some(text)
    });
    let users: Vec<_> = lines.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(users, ["-", "eve", "eve", "-"], "{lines}");
}

/// A reload adds and removes users, including users with cached passwords.
fn users_are_reloaded(driver: &'static str) {
    let site = site();
    let server = start(driver, &site, "");
    let mut client = Client::connect(server.address);
    let reload = |users: &str| {
        fs::write(site.outside().join("users"), users).unwrap();
        server.reload()
    };
    assert_eq!(client.get_with("/private/file", EVE).status, 200);
    let adam = USERS.lines().nth(1).unwrap();
    reload(adam);
    assert_eq!(client.get_with("/private/file", EVE).status, 401);
    // A file with an error changes nothing.
    let output = reload("eve:apple");
    assert!(
        output.contains("users: line 1, column 1: the password of \"eve\"")
            && output.contains("not reloaded")
    );
    assert_eq!(client.get_with("/private/file", EVE).status, 401);
    reload(USERS);
    assert_eq!(client.get_with("/private/file", EVE).status, 200);
    // Without the rule everybody has access.
    fs::write(site.outside().join("web.toml"), "listen = '127.0.0.1:0'\nhost.root = 'root'")
        .unwrap();
    reload(USERS);
    assert_eq!(client.get("/private/file").body, b"private/file");
}

/// Many concurrent guesses are rejected, and known users are not delayed by them.
#[test]
fn guessing_does_not_delay_users() {
    let site = site();
    let server = start("poll", &site, "");
    let mut known = Client::connect(server.address);
    assert_eq!(known.get_with("/private/file", EVE).status, 200);
    let mut guessers: Vec<_> = (0..100).map(|_| Client::connect(server.address)).collect();
    for (n, guesser) in guessers.iter_mut().enumerate() {
        let credentials = ["ZXZlOmE=", "YWRhbTph", "eDp5"][n % 3];
        guesser.send(format!(
            "GET /private/file HTTP/1.1\r\nHost: h\r\nAuthorization: Basic {credentials}\r\n\r\n"
        ));
    }
    for _ in 0..10 {
        assert_eq!(known.get_with("/private/file", EVE).body, b"private/file");
        assert_eq!(get(server.address, "/open").body, b"open");
    }
    for guesser in &mut guessers {
        // Guesses beyond the queue limit get a 503, and those of a name that is locked out a 429.
        let status = guesser.response().status;
        assert!([401, 429, 503].contains(&status), "{status}");
    }
}

#[test]
fn errors_in_password_files_are_reported() {
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
    // (users, address, rule, exit code, message)
    let apr1 = "a:$apr1$To7pGVxw$DkPvt3wBQAWydgOyWWcBW.\nb:{SHA}EfatjsUqKYSrqv18O1FlA3hcIHI=";
    let table = [
        (
            apr1,
            "127.0.0.1:80",
            rule,
            1,
            &["users: line 1,", "users: line 2,", "MD5", "SHA-1", "htpasswd -B"][..],
        ),
        ("", "127.0.0.1:80", rule, 1, &["no users"]),
        (USERS, "0.0.0.0:80", rule, 0, &["0.0.0.0:80 are sent without TLS"]),
        (USERS, "127.0.0.1:80", "[[host.auth]]\nusers = 'none'", 1, &["cannot read", "none"]),
        (USERS, "127.0.0.1:80", "[[host.auth]]\npath = '/'", 2, &["users"]),
        (USERS, "127.0.0.1:80", &format!("{rule}\nrealm = 'a\"b'"), 2, &["realm", "ASCII text"]),
        (USERS, "127.0.0.1:80", &format!("{rule}\npath = '['"), 2, &["auth[0].path"]),
    ];
    for (users, listen, rule, code, expected) in table {
        let (found, stderr) = check(users, listen, rule);
        assert_eq!(found, Some(code), "{stderr}");
        assert!(
            expected.iter().all(|expected| stderr.contains(expected)),
            "{expected:?}: {stderr}"
        );
    }
    fs::write(site.root().join("users"), USERS).unwrap();
    let (code, stderr) = check(USERS, "127.0.0.1:80", "[[host.auth]]\nusers = 'root/users'");
    assert!(code == Some(0) && stderr.contains("below a host's root"), "{stderr}");
    // The server does not start with such a configuration either.
    fs::write(&users, apr1).unwrap();
    fs::write(&file, format!("listen = '127.0.0.1:0'\nhost.root = 'root'\n{rule}")).unwrap();
    let output = bare().args(["web", "--config"]).arg(&file).output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b""[..]));
}

/// Output of the current htpasswd.
#[test]
fn htpasswd_files_are_supported() {
    let site = site();
    let Ok(made) = Command::new("htpasswd").args(["-nbB", "eve", "apple"]).output() else {
        println!("skipped: there is no htpasswd");
        return;
    };
    let server = start("poll", &site, "");
    fs::write(site.outside().join("users"), made.stdout).unwrap();
    assert!(server.reloaded().contains("version 2"));
    let mut client = Client::connect(server.address);
    assert_eq!(client.get_with("/private/file", EVE).status, 200);
}
