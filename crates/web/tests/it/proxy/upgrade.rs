//! Changes of protocol: bytes in both directions.

use std::io::{Read, Write};
use std::net::Shutdown;

use crate::common::{all, connect, read_until};
use crate::proxy::backend::Backend;
use crate::proxy::with;

const ASK: &str =
    "GET /api HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: echo\r\n\r\n";

#[test]
fn a_tunnel_passes_bytes_in_both_directions() {
    let backend = || {
        Backend::new(|mut peer, _| {
            let Some(head) = peer.head() else { return };
            assert!(head.contains("Connection: upgrade\r\nUpgrade: echo\r\n"), "{head}");
            // Bytes may follow the head immediately, as from a server that speaks first.
            peer.say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello");
            let mut piece = [0; 1000];
            loop {
                match peer.stream.read(&mut piece) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => peer.say(&piece[..count]),
                }
            }
            peer.say("bye");
        })
    };
    with(
        backend,
        |_| (),
        |server, _| {
            let mut client = connect(server);
            client.write_all(ASK.as_bytes()).unwrap();
            let head = read_until(&mut client, "hello");
            assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
            assert!(
                head.contains("Connection: upgrade\r\n") && head.contains("Upgrade: echo\r\n"),
                "{head}"
            );
            for n in 0..100 {
                let text = format!("message {n};");
                client.write_all(text.as_bytes()).unwrap();
                assert_eq!(read_until(&mut client, ";"), text);
            }
            client.shutdown(Shutdown::Write).unwrap();
            assert_eq!(read_until(&mut client, "bye"), "bye");
            assert_eq!(client.read(&mut [0; 10]).unwrap(), 0);
        },
    );
}

/// Tunnels may last for hours, so they do not use the slots of requests.
#[test]
fn a_tunnel_leaves_its_slot_to_requests() {
    let backend = || {
        Backend::new(|mut peer, _| {
            while let Some(head) = peer.head() {
                if head.contains("Upgrade: echo\r\n") {
                    peer.say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\r\nhello");
                    return peer.drain();
                }
                peer.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
            }
        })
    };
    let change = |proxy: &mut phalanx_web::Proxy| {
        (proxy.max_requests, proxy.connect_timeout) = (1, std::time::Duration::from_millis(50));
    };
    with(backend, change, |server, _| {
        let mut client = connect(server);
        client.write_all(ASK.as_bytes()).unwrap();
        read_until(&mut client, "hello");
        let text = all(server, "GET /api HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    });
}

#[test]
fn a_server_may_decline() {
    let backend = || {
        Backend::new(|mut peer, _| {
            while peer.head().is_some() {
                peer.say("HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno");
            }
        })
    };
    with(
        backend,
        |_| (),
        |server, _| {
            let text = all(server, &[ASK, "GET /missing HTTP/1.0\r\n\r\n"].concat());
            assert!(
                text.starts_with("HTTP/1.1 400 ") && text.contains("noHTTP/1.1 404 "),
                "{text}"
            );
        },
    );
}

#[test]
fn a_server_cannot_choose_another_protocol() {
    let backend = || {
        Backend::new(|mut peer, _| {
            let Some(head) = peer.head() else { return };
            assert!(head.ends_with("Connection: upgrade\r\nUpgrade: echo\r\n\r\n"), "{head}");
            peer.say(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
            );
            peer.drain();
        })
    };
    with(
        backend,
        |_| (),
        |server, _| {
            let text =
                all(server, &ASK.replace("echo", "h2c, echo").replace("keep-alive", "close"));
            assert!(text.starts_with("HTTP/1.1 502 "), "{text}");
        },
    );
}
