//! Redirects from an address without TLS to one with TLS.

use phalanx_testkit::authority::Authority;
use phalanx_testkit::http::Client;
use phalanx_testkit::process::curl_output;
use phalanx_testkit::site::Site;

use crate::on_each_driver;
use crate::server::Server;

on_each_driver!(redirect_https, names_of_hosts);

fn site() -> Site {
    let site = Site::new();
    site.file("small", "small");
    site
}

fn redirect_https(driver: &'static str) {
    let (site, authority) = (site(), Authority::new());
    let pair = authority.sign("a", &["a.test"]);
    let server = {
        let arguments =
            [&pair.arguments()[..], &["--listen", "redirect-https://127.0.0.1:0"]].concat();
        Server::start_with(driver, &site.root(), &arguments)
    };
    let plain = server.next_address();
    let mut client = Client::connect(plain);
    for host in ["a.test", "a.test:80", "A.test:8080"] {
        client.send(format!("GET /x%20y?z HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let response = client.response();
        assert_eq!(response.status, 308);
        let name = host.split(':').next().unwrap();
        let expected = format!("https://{name}:{}/x%20y?z", server.address.port());
        assert_eq!(response.field("Location"), Some(expected.as_str()));
    }
    let port = plain.port();
    let (ca, https) = (authority.certificate(), server.address.port());
    let [one, two] = [port, https].map(|port| format!("a.test:{port}:127.0.0.1"));
    let url = format!("http://a.test:{port}/small");
    let ca = ca.to_str().unwrap();
    let body = curl_output(&["-L", "--cacert", ca, "--resolve", &one, "--resolve", &two, &url]);
    assert_eq!(body, "small");
}

/// A client does not control the target: an unknown host name is not repeated.
fn names_of_hosts(driver: &'static str) {
    let (site, authority) = (site(), Authority::new());
    let pair = authority.sign("a", &["a.test"]);
    let [_, certificate, _, key] = pair.arguments();
    let host = |names: &str| {
        format!(
            "[[host]]\nroot = 'root'\nserver-names = {names}\ntls = {{ certificate = {certificate:?}, key = {key:?} }}\n"
        )
    };
    let own = host("['*.b.test', 'a.test']");
    let wild = host("['*.b.test']");
    let other = "GET /x?y HTTP/1.1\r\nHost: other.test\r\n\r\n";
    let absolute = "GET http://other.test/x?y HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let known = "GET http://a.test/x?y HTTP/1.1\r\nHost: other.test\r\n\r\n";
    let below = "GET /x?y HTTP/1.1\r\nHost: X.b.test:80\r\n\r\n";
    let raw = "GET /\u{e9}/%20\"<>?\u{e9}\"<> HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let nameless = "GET /x?y HTTP/1.0\r\n\r\n";
    let own_name = Ok("a.test/x?y");
    // (`unknown-host` setting, hosts, request, target or status)
    let table = [
        ("421", &own, other, Err(421)),
        ("404", &own, other, Err(404)),
        ("first", &own, other, own_name),
        ("421", &own, absolute, Err(421)),
        ("404", &own, absolute, Err(404)),
        ("first", &own, absolute, own_name),
        ("421", &own, known, own_name),
        ("421", &own, below, Ok("X.b.test/x?y")),
        ("421", &own, raw, Ok("a.test/%C3%A9/%20%22%3C%3E?%C3%A9%22%3C%3E")),
        ("421", &own, nameless, Err(421)),
        ("first", &own, nameless, own_name),
        ("first", &wild, other, Err(421)),
        ("first", &wild, nameless, Err(400)),
    ];
    for (unknown, hosts, request, expected) in table {
        let text = format!(
            "listen = ['https://127.0.0.1:0', 'redirect-https://127.0.0.1:0']\nunknown-host = {unknown:?}\n{hosts}"
        );
        let server = Server::configured(driver, site.outside(), &text, &[]);
        let mut client = Client::connect(server.next_address());
        client.send(request);
        let response = client.response();
        let location = response.field("Location");
        match expected {
            Ok(expected) => {
                let (name, rest) = expected.split_once('/').unwrap();
                let expected = format!("https://{name}:{}/{rest}", server.address.port());
                assert_eq!(response.status, 308, "{unknown} {request}");
                assert_eq!(location, Some(expected.as_str()), "{unknown} {request}");
            }
            Err(status) => {
                assert_eq!((response.status, location), (status, None), "{unknown} {request}");
            }
        }
        let body = String::from_utf8_lossy(&response.body);
        assert!(!body.contains("other.test"), "{body}");
    }
}
