//! Hosts and their rules, requested with curl.

use phalanx_testkit::process::curl_output;
use phalanx_testkit::site::Site;

use crate::on_each_driver;
use crate::server::Server;

on_each_driver!(hosts_have_their_own_files, rules_apply, headers_of_errors);

/// A server with a configuration file, whose relative paths are based beside the served folder.
fn start(driver: &str, site: &Site, text: &str) -> Server {
    Server::configured(driver, site.outside(), text, &["--listen", "127.0.0.1:0"])
}

fn hosts_have_their_own_files(driver: &'static str) {
    let site = Site::new();
    for host in ["default", "a", "wild"] {
        site.file(format!("{host}/index.html"), host);
    }
    let text = "
        [[host]]
        root = 'root/default'
        [[host]]
        server-names = ['a.example']
        root = 'root/a'
        [[host]]
        server-names = ['*.a.example']
        root = 'root/wild'
    ";
    let server = start(driver, &site, text);
    let url = format!("http://{}/", server.address);
    // (Host, root), each twice: from the disk and from the cache.
    for _ in 0..2 {
        for (host, root) in [
            ("a.example", "a"),
            ("A.EXAMPLE:99", "a"),
            ("x.a.example", "wild"),
            ("other", "default"),
        ] {
            assert_eq!(curl_output(&["-H", &format!("Host: {host}"), &url]), root, "{host}");
        }
        let absolute = ["--request-target", "http://x.a.example/", "-H", "Host: other", &url];
        assert_eq!(curl_output(&absolute), "wild");
    }
    let config = text.replacen("[[host]]", "unknown-host = '421'\n[[host]]\nserver-names = 'b'", 1);
    let server = start(driver, &site, &config);
    let url = format!("http://{}/", server.address);
    let code = |host: &str| {
        let format = ["-o", "/dev/null", "-w", "%{http_code}", "-H"];
        curl_output(&[&format[..], &[&format!("Host: {host}"), &url]].concat())
    };
    assert_eq!((code("b"), code("other")), ("200".into(), "421".into()));
}

fn headers_of_errors(driver: &'static str) {
    let site = Site::new();
    site.file("own.html", "own page");
    site.file("api/a.txt", "a");
    let text = "
        [[host]]
        root = 'root'
        error-pages = ['403=own.html', '405=own.html']
        security-headers = true
        [[host.header]]
        path = '/api/**'
        name = 'X-Api'
        value = 'v1'
        errors = true
        [[host.header]]
        path = '/**'
        name = 'X-Frame-Options'
        value = 'DENY'
        errors = true
        [[host.header]]
        path = '/**'
        name = 'X-Files'
        value = 'only'
    ";
    let server = start(driver, &site, text);
    let head = |arguments: &[&str], path: &str| {
        let url = format!("http://{}{path}", server.address);
        let all = [&["-o", "/dev/null", "-D", "-"], arguments, &[&url]].concat();
        curl_output(&all).to_ascii_lowercase()
    };
    let (file, missing) = (head(&[], "/api/a.txt"), head(&[], "/api/missing"));
    assert!(file.contains("x-api: v1") && file.contains("x-files"), "{file}");
    assert!(missing.starts_with("http/1.1 404") && missing.contains("x-api: v1"), "{missing}");
    assert!(!missing.contains("x-files"), "{missing}");
    let own = head(&["-X", "POST"], "/api/a.txt");
    assert!(own.starts_with("http/1.1 405") && own.contains("x-api: v1"), "{own}");
    for head in [&file, &missing, &own, &head(&[], "/missing")] {
        assert_eq!(head.matches("x-frame-options: deny").count(), 1, "{head}");
        assert_eq!(head.matches("x-frame-options").count(), 1, "{head}");
        assert!(head.contains("nosniff"), "{head}");
    }
    assert!(!head(&[], "/missing").contains("x-api"));
}

fn rules_apply(driver: &'static str) {
    let site = Site::new();
    site.file("index.html", "home");
    site.file("app.html", "app");
    site.file("assets/a.css", "css");
    site.file("v2/x", "x");
    let text = "
        [host]
        root = 'root'
        security-headers = { frame-options = 'DENY' }
        [host.cors]
        origins = ['https://app.example']
        headers = ['X-Token']
        [[host.cache-control]]
        path = '/assets/**'
        value = 'public, max-age=31536000, immutable'
        [[host.header]]
        path = '*.html'
        name = 'X-Page'
        value = 'yes'
        [[host.redirect]]
        from = '/old/**'
        to = '/new/$rest'
        status = 302
        [[host.rewrite]]
        from = '/app/**'
        to = '/app.html'
        [[host.rewrite]]
        from = '/v1/**'
        to = '/v2/$rest'
    ";
    let server = start(driver, &site, text);
    let ask = |path: &str, args: &[&str]| {
        let url = format!("http://{}{path}", server.address);
        curl_output(&[&["-i"], args, &[&url]].concat())
    };
    let has_line = |answer: &str, line: &str| answer.lines().any(|other| other == line);
    for _ in 0..2 {
        let home = ask("/", &[]);
        assert!(home.ends_with("home") && has_line(&home, "X-Page: yes"), "{home}");
        assert!(
            has_line(&home, "X-Frame-Options: DENY") && has_line(&home, "Vary: Origin"),
            "{home}"
        );
        assert!(!home.contains("Cache-Control") && !home.contains("Allow-Origin"), "{home}");
        let css = ask("/assets/a.css", &["-H", "Origin: https://app.example"]);
        assert!(has_line(&css, "Cache-Control: public, max-age=31536000, immutable"), "{css}");
        assert!(has_line(&css, "Access-Control-Allow-Origin: https://app.example"), "{css}");
        assert!(has_line(&css, "X-Content-Type-Options: nosniff") && css.ends_with("css"), "{css}");
    }
    let other = ask("/", &["-H", "Origin: https://evil.example"]);
    assert!(!other.contains("Allow-Origin") && has_line(&other, "Vary: Origin"), "{other}");
    let missing = ask("/missing", &[]);
    assert!(missing.starts_with("HTTP/1.1 404") && has_line(&missing, "X-Frame-Options: DENY"));
    let redirect = ask("/old/a%20b?c=d", &[]);
    assert!(
        redirect.starts_with("HTTP/1.1 302") && has_line(&redirect, "Location: /new/a%20b?c=d")
    );
    assert!(has_line(&redirect, "X-Content-Type-Options: nosniff"), "{redirect}");
    assert!(ask("/app/any/where", &[]).ends_with("app"));
    assert!(ask("/v1/x", &[]).ends_with("x"));
    let asks = ["-X", "OPTIONS", "-H", "Origin: https://app.example"];
    let question = ask("/", &[&asks[..], &["-H", "Access-Control-Request-Method: GET"]].concat());
    assert!(question.starts_with("HTTP/1.1 204"), "{question}");
    assert!(has_line(&question, "Access-Control-Allow-Methods: GET, HEAD"), "{question}");
    assert!(has_line(&question, "Access-Control-Allow-Headers: X-Token"), "{question}");
    assert!(has_line(&question, "Access-Control-Allow-Origin: https://app.example"), "{question}");
    assert!(ask("/", &asks).contains("Allow: GET, HEAD, OPTIONS"));
}
