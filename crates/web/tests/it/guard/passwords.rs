//! Clients that guess passwords, and a client that knows one.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use phalanx_guard::PAIR_FAILURES;
use phalanx_testkit::{eventually, tcp};
use phalanx_web::{Auth, Network};

use crate::guard::harness::{Server, all, connect, on_each_driver};

/// By `htpasswd -nbB -C 10`: the password is `apple`.
const USERS: &str = "eve:$2y$10$sXnc44LtqYruz8UttXS/9uuWolMqDNityYu.TNFRkB5i81iFvug2K\n";

/// A request of a client that a trusted proxy names, with these credentials in Base64.
fn request(client: &str, credentials: &str) -> String {
    format!(
        "GET /small HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-Forwarded-For: {client}\r\n\
         Authorization: Basic {credentials}\r\n\r\n"
    )
}

/// `eve:apple`.
const EVE: &str = "ZXZlOmFwcGxl";
/// `eve:wrong`.
const WRONG: &str = "ZXZlOndyb25n";

fn on_a_protected_site(test: impl Fn(&Server)) {
    on_each_driver(
        |config, home| {
            let users = home.join("users");
            std::fs::write(&users, USERS).unwrap();
            let rule = Auth { path: "/**".into(), realm: "the garden".into(), users };
            config.hosts[0].auth = vec![rule];
            config.real_ip_from = vec!["127.0.0.0/8".parse::<Network>().unwrap()];
        },
        |server, _| test(server),
    );
}

/// One client sends more guesses than are checked at a time, and then another client sends a request.
#[test]
fn guesses_of_one_client_delay_no_other() {
    on_a_protected_site(|server| {
        let mut guesses: Vec<_> = (0..200).map(|_| connect(server)).collect();
        for (n, stream) in guesses.iter_mut().enumerate() {
            // Each guess has another user name, so that none is locked out.
            let name = format!("{n}:wrong");
            let credentials = STANDARD.encode(name);
            stream.write_all(request("198.51.100.1", &credentials).as_bytes()).unwrap();
        }
        let answer = all(server, &request("192.0.2.1", EVE));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        for stream in &mut guesses {
            let answer = String::from_utf8(tcp::read_to_end(stream)).unwrap();
            let status = &answer[9..12];
            assert!(["401", "429", "503"].contains(&status), "{answer}");
        }
    });
}

#[test]
fn a_client_that_guesses_is_locked_out() {
    on_a_protected_site(|server| {
        let status = |client: &str, credentials: &str| {
            let answer = all(server, &request(client, credentials));
            let is_later = answer.contains("\r\nRetry-After: ");
            (answer[9..12].to_owned(), is_later)
        };
        // A client that has sent the right password is not locked out.
        assert_eq!(status("198.51.100.1", EVE).0, "200");
        for client in ["198.51.100.1", "198.51.100.2"] {
            // On a busy machine the first lock-outs, of a second or two, may be over before the next request.
            let mut answers = (0..2 * PAIR_FAILURES).map(|n| (n, status(client, WRONG)));
            let (n, (code, is_later)) =
                answers.find(|(_, (code, _))| code != "401").expect("a lock-out");
            assert!(n >= PAIR_FAILURES && code == "429" && is_later, "{client} {n} {code}");
        }
        assert_eq!(status("198.51.100.1", EVE).0, "200");
        assert_eq!(status("192.0.2.1", EVE).0, "200", "others are not affected");
    });
}

/// A lock-out doubles with each further guess, and the response says how long it lasts.
#[test]
fn a_client_that_is_locked_out_learns_for_how_long() {
    on_a_protected_site(|server| {
        eventually("a lock-out of two seconds", || {
            let answer = all(server, &request("198.51.100.1", WRONG));
            let field = answer.lines().find_map(|line| line.strip_prefix("Retry-After: "))?;
            field.parse::<u32>().ok().filter(|seconds| *seconds > 1)
        });
    });
}
