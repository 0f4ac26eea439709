//! Fields determined by the configuration, on every kind of response: security and transport, media types and
//! charsets, and cross-origin access.

use phalanx_testkit::authority::Authority;
use phalanx_testkit::http::{Client, Response};
use phalanx_testkit::process::curl_output;
use phalanx_testkit::site::Site;

use crate::on_each_driver;
use crate::server::Server;

on_each_driver!(transport_security_over_tls_only, configured_media_types, on_every_kind_of_answer);

/// RFC 6797 §7.2: on all responses over TLS, and on no others.
fn transport_security_over_tls_only(driver: &'static str) {
    let (site, authority) = (Site::new(), Authority::new());
    site.file("file", "content");
    site.file("directory/file", "content");
    let pair = authority.sign("a", &["a.test"]);
    let [_, certificate, _, key] = pair.arguments();
    let text = format!(
        "listen = ['https://127.0.0.1:0', '127.0.0.1:0', 'redirect-https://127.0.0.1:0']\nh2c = true\n\
         [host]\nroot = 'root'\nlisting = true\n\
         tls = {{ certificate = {certificate:?}, key = {key:?} }}\n\
         [host.security-headers]\nstrict-transport-security = 'max-age=63072000'\n"
    );
    let server = Server::configured(driver, site.outside(), &text, &[]);
    let (plain, redirects) = (server.next_address(), server.next_address());
    let port = server.address.port();
    let resolve = format!("a.test:{port}:127.0.0.1");
    let ca = authority.certificate();
    let own = ["--cacert", ca.to_str().unwrap(), "--resolve", &resolve, "-D", "-", "-o"];
    let own = [&own[..], &["/dev/null"]].concat();
    let line = "strict-transport-security: max-age=63072000";
    let count = |head: String| head.to_ascii_lowercase().lines().filter(|one| *one == line).count();
    for protocol in ["--http1.1", "--http2"] {
        // Twice: from the disk and from the cache.
        for path in ["file", "file", "none", "directory", "directory/", "directory/"] {
            let url = format!("https://a.test:{port}/{path}");
            let head = curl_output(&[&own[..], &[protocol, &url]].concat());
            assert_eq!(count(head), 1, "{protocol} {path}");
        }
    }
    for address in [plain, redirects] {
        for protocol in ["--http1.1", "--http2-prior-knowledge"] {
            for path in ["file", "none", "directory/"] {
                if address == redirects && protocol != "--http1.1" {
                    continue;
                }
                let url = format!("http://{address}/{path}");
                let head = curl_output(&["-D", "-", "-o", "/dev/null", protocol, &url]);
                assert_eq!(count(head), 0, "{protocol} {path}");
            }
        }
    }
}

fn configured_media_types(driver: &'static str) {
    let site = Site::new();
    let long = "many words, and the same again. ".repeat(100);
    for path in ["README", "a.html", "a.log", "data.bin", "old/a.html"] {
        site.file(path, &long);
    }
    let text = "
        listen = '127.0.0.1:0'
        [host]
        root = 'root'
        charset = 'koi8-r'
        compress = true
        content-type = [
            { path = 'README', value = 'text/plain' },
            { path = '/old/**', value = 'text/html; charset=iso-8859-1' },
            { path = '*.log', value = 'application/x-log' },
        ]
    ";
    let server = Server::configured(driver, site.outside(), text, &[]);
    let mut client = Client::connect(server.address);
    for (path, expected, small) in [
        ("/README", "text/plain; charset=koi8-r", true),
        ("/a.html", "text/html; charset=koi8-r", true),
        ("/old/a.html", "text/html; charset=iso-8859-1", true),
        ("/a.log", "application/x-log", false),
        ("/data.bin", "application/octet-stream", false),
    ] {
        for _ in 0..2 {
            assert_eq!(client.get(path).field("content-type"), Some(expected), "{path}");
        }
        let part = client.get_with(path, "Range: bytes=0-3\r\n");
        assert_eq!((part.status, part.field("content-type")), (206, Some(expected)), "{path}");
        let several = client.get_with(path, "Range: bytes=0-3,9-12\r\n");
        let body = String::from_utf8(several.body).unwrap();
        assert_eq!(body.matches(&format!("Content-Type: {expected}\r\n")).count(), 2, "{body}");
        // Text is compressed, whatever its name is.
        let gzip = client.get_with(path, "Accept-Encoding: gzip, identity;q=0\r\n");
        assert_eq!(gzip.status, if small { 200 } else { 406 }, "{path}");
        if small {
            assert_eq!(gzip.field("content-encoding"), Some("gzip"), "{path}");
            assert_eq!(gzip.field("content-type"), Some(expected), "{path}");
        }
    }
}

/// A host's fields are on all its responses, once each.
fn on_every_kind_of_answer(driver: &'static str) {
    let site = Site::new();
    site.file("pages/a.txt", "0123456789");
    let text = "
        listen = '127.0.0.1:0'
        [host]
        root = 'root'
        listing = true
        cors = { origins = ['https://app.test'] }
        security-headers = true
        header = [
            { path = '/pages/**', name = 'X-Own', value = 'yes' },
            { path = '/old', name = 'X-Own', value = 'yes' },
            { path = '/old', name = 'Cache-Control', value = 'max-age=7' },
        ]
        redirect = [{ from = '/old', to = '/pages/', status = 301 }]
        cache-control = [{ path = '*.txt', value = 'max-age=9' }]
    ";
    let server = Server::configured(driver, site.outside(), text, &[]);
    let mut client = Client::connect(server.address);
    let count = |response: &Response, name: &str| {
        response.fields.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name)).count()
    };
    // (path, additional lines, status, whether `X-Own` is present, `Cache-Control`)
    let table = [
        ("/pages/a.txt", "", 200, true, Some("max-age=9")),
        ("/pages/a.txt", "Range: bytes=1-2\r\n", 206, true, Some("max-age=9")),
        ("/pages/a.txt", "Range: bytes=1-2,5-6\r\n", 206, true, Some("max-age=9")),
        ("/pages/a.txt", "Range: bytes=99-\r\n", 416, false, None),
        ("/pages/a.txt", "If-None-Match: *\r\n", 304, true, Some("max-age=9")),
        ("/pages/", "", 200, true, Some("no-cache")),
        ("/pages/", "Accept: application/json\r\n", 200, true, Some("no-cache")),
        ("/pages", "", 301, true, None),
        ("/old", "", 301, true, None),
        ("/none", "", 404, false, None),
    ];
    for (path, lines, status, own, cached) in table {
        let response = client.get_with(path, &format!("Origin: https://app.test\r\n{lines}"));
        let case = format!("{path} {lines}{:?}", response.fields);
        assert_eq!(response.status, status, "{case}");
        assert_eq!(
            response.field("access-control-allow-origin"),
            Some("https://app.test"),
            "{case}"
        );
        for name in ["access-control-allow-origin", "x-content-type-options", "referrer-policy"] {
            assert_eq!(count(&response, name), 1, "{name}: {case}");
        }
        assert_eq!(count(&response, "x-own"), usize::from(own), "{case}");
        assert_eq!(response.field("cache-control"), cached, "{case}");
        assert!(count(&response, "cache-control") <= 1, "{case}");
    }
}
