//! Requests that become a WebSocket, and those that do not.

use phalanx_websocket::{MAX_HEAD, Upgrade};

const REQUEST: &str = "GET /mqtt HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Protocol: v1, mqtt\r\nOrigin: https://a.test\r\n\r\n";

#[test]
fn cut_anywhere() {
    for cut in 0..REQUEST.len() {
        assert_eq!(Upgrade::read(&REQUEST.as_bytes()[..cut], "mqtt"), Ok(None), "{cut}");
    }
    let with_data = format!("{REQUEST}\u{2}\u{3}");
    let upgrade = Upgrade::read(with_data.as_bytes(), "mqtt").unwrap().unwrap();
    assert_eq!((upgrade.length, upgrade.origin), (REQUEST.len(), Some("https://a.test")));
    let answer = String::from_utf8(upgrade.accept).unwrap();
    assert!(answer.starts_with("HTTP/1.1 101 ") && answer.ends_with("\r\n\r\n"));
    assert!(answer.contains("sec-websocket-protocol: mqtt\r\n"));
}

#[test]
fn invalid_upgrades_are_refused() {
    // (what is replaced, by what, the status)
    let table = [
        ("GET", "POST", "400"),
        ("HTTP/1.1", "HTTP/1.0", "400"),
        ("GET /mqtt HTTP/1.1", "\u{10}\u{e}\0\u{4}MQTT", "400"),
        ("Host: a\r\n", "", "400"),
        ("Host: a\r\n", "Host: a\r\nHost: b\r\n", "400"),
        ("Upgrade: websocket", "Upgrade: h2c", "426"),
        ("keep-alive, Upgrade", "keep-alive", "426"),
        ("Version: 13", "Version: 8", "426"),
        ("25jZQ==", "25j", "400"),
        ("dGhlIHNhbXBsZSBub25jZQ==", "?", "400"),
        ("v1, mqtt", "v1, MQTT", "400"),
        ("Sec-WebSocket-Protocol: v1, mqtt\r\n", "", "400"),
        ("\r\n\r\n", "\r\nOrigin: b\r\n\r\n", "400"),
    ];
    for (from, to, status) in table {
        let request = REQUEST.replacen(from, to, 1);
        let result = Upgrade::read(request.as_bytes(), "mqtt");
        let Err(result) = result else { panic!("{from} -> {to}: {result:?}") };
        let answer = String::from_utf8(result.answer()).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{from} -> {to}: {answer}");
        let upgrades = answer.contains("\r\nconnection: close, upgrade\r\nupgrade: websocket\r\n");
        assert_eq!(upgrades, status == "426", "{from} -> {to}: {answer}");
    }
    let long = REQUEST.replacen("/mqtt", &"/x".repeat(MAX_HEAD), 1);
    let result = Upgrade::read(long.as_bytes(), "mqtt").unwrap_err();
    assert!(result.answer().starts_with(b"HTTP/1.1 431 "));
    let many = REQUEST.replacen("Host", &format!("{}Host", "a: b\r\n".repeat(99)), 1);
    assert!(Upgrade::read(many.as_bytes(), "mqtt").is_err());
}
