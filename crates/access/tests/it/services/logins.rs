//! Logins that a service decides.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sleep;
use phalanx::time::now;
use phalanx_access::{CallOutError, CallOutOptions, CallOuts, Candidate, Endpoint};
use phalanx_guard::{PAIR_FAILURES, Refusal};

use super::{CLOSE, URL, run, seconds};

fn options() -> CallOutOptions {
    CallOutOptions {
        is_form: false,
        authorization: Some("Bearer abc".into()),
        timeout: Duration::from_secs(2),
        max_requests: 2,
        allowed: Duration::from_secs(60),
        denied: Duration::from_secs(5),
        max_answers: 100,
    }
}

fn candidate(password: &str) -> Candidate<'_> {
    let address = Some([10, 0, 0, 1].into());
    let (password, is_assigned) = (password.as_bytes(), false);
    Candidate { user: "eve", password, client_id: "a&b", is_assigned, address }
}

fn service_with(options: CallOutOptions) -> CallOuts {
    CallOuts::new(Endpoint::open(URL, None).unwrap(), options)
}

#[test]
fn answers_are_used_for_their_lifetime() {
    run(|service, fetcher, _| async move {
        let logins = service_with(options());
        let verify = async |password| logins.verify(candidate(password), 1, &fetcher).await;
        service.answers(200, "", r#"{"result": "allow"}"#);
        for _ in 0..3 {
            assert_eq!(verify("apple").await, Ok(true));
        }
        assert_eq!(service.count(), 1);
        let request = service.requests.borrow()[0].clone();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /path HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n"), "{head}");
        assert!(head.contains("Authorization: Bearer abc\r\n"), "{head}");
        let expected =
            r#"{"clientid":"a&b","password":"apple","peerhost":"10.0.0.1","username":"eve"}"#;
        assert_eq!(body, expected);
        // With the status 401 the service refuses the broker itself, so the login remains undecided.
        service.answers(401, "", "");
        assert_eq!(verify("fig").await, Err(CallOutError::Unavailable));
        service.requests.borrow_mut().pop();
        service.answers(403, "", "");
        for _ in 0..3 {
            assert_eq!(verify("pear").await, Ok(false));
        }
        assert_eq!(service.count(), 2);
        seconds(6).await;
        assert_eq!((verify("pear").await, service.count()), (Ok(false), 3));
        assert_eq!((verify("apple").await, service.count()), (Ok(true), 3));
        seconds(60).await;
        assert_eq!((verify("apple").await, service.count()), (Ok(false), 4));
        // A form; and a password that is not a text, about which the service is not asked.
        let logins = service_with(CallOutOptions { is_form: true, ..options() });
        let rejected = logins.verify(candidate("p r&"), 1, &fetcher).await;
        let expected = "username=eve&password=p+r%26&clientid=a%26b&peerhost=10.0.0.1";
        assert!(rejected == Ok(false) && service.requests.borrow()[4].ends_with(expected));
        let binary = Candidate { password: b"\xff", ..candidate("") };
        assert_eq!(logins.verify(binary, 1, &fetcher).await, Ok(false));
        // Escaped, this is longer than a request may be.
        let long = "=".repeat(12_000);
        assert_eq!(logins.verify(candidate(&long), 1, &fetcher).await, Ok(false));
        assert_eq!(service.count(), 5);
    });
}

#[test]
fn answers_belong_to_one_login() {
    run(|service, fetcher, _| async move {
        let logins = service_with(options());
        let verify = async |candidate| logins.verify(candidate, 1, &fetcher).await;
        let login = candidate("apple");
        service.answers(200, "", "");
        assert_eq!(verify(login).await, Ok(true));
        service.answers(403, "", "");
        let others = [
            Candidate { user: "bob", ..login },
            Candidate { password: b"appl", ..login },
            Candidate { client_id: "", ..login },
            // The parts of a login are not confused.
            Candidate { user: "eveapple", password: b"", ..login },
            Candidate { address: Some([10, 0, 0, 2].into()), ..login },
            Candidate { address: None, ..login },
        ];
        for (n, other) in others.into_iter().enumerate() {
            assert_eq!((verify(other).await, service.count()), (Ok(false), n + 2), "{n}");
        }
        assert_eq!((verify(login).await, service.count()), (Ok(true), others.len() + 1));
    });
}

#[test]
fn assigned_client_identifiers_do_not_distinguish_logins() {
    run(|service, fetcher, _| async move {
        let logins = service_with(options());
        let verify = async |candidate| logins.verify(candidate, 1, &fetcher).await;
        let login = Candidate { client_id: "auto-1", is_assigned: true, ..candidate("apple") };
        service.answers(200, "", "");
        assert_eq!(verify(login).await, Ok(true));
        assert!(service.requests.borrow()[0].contains("auto-1"));
        service.answers(403, "", "");
        assert_eq!(verify(Candidate { client_id: "auto-2", ..login }).await, Ok(true));
        // A client that chooses such an identifier is another one.
        assert_eq!(verify(Candidate { is_assigned: false, ..login }).await, Ok(false));
        assert_eq!(service.count(), 2);
    });
}

#[test]
fn a_request_is_repeated_only_after_a_closed_connection() {
    run(|service, fetcher, _| async move {
        let logins = service_with(CallOutOptions { max_requests: 1, ..options() });
        let verify = async |password| logins.verify(candidate(password), 1, &fetcher).await;
        service.answers(200, "", "");
        assert_eq!(verify("apple").await, Ok(true));
        *service.answer.borrow_mut() = CLOSE.into();
        assert_eq!(verify("pear").await, Err(CallOutError::Unavailable));
        assert_eq!((service.count(), service.connections.get()), (3, 2));
        service.answers(200, "", "");
        assert_eq!(verify("plum").await, Ok(true));
        // Neither a malformed answer nor the end of the time causes another request.
        service.answers(200, "", &"x".repeat(100_000));
        assert_eq!(verify("pear").await, Err(CallOutError::Unavailable));
        assert_eq!(service.count(), 5);
        service.answers(200, "", "");
        assert_eq!(verify("fig").await, Ok(true));
        service.answer.borrow_mut().clear();
        assert_eq!(verify("pear").await, Err(CallOutError::Unavailable));
        assert_eq!((service.count(), service.connections.get()), (7, 4));
    });
}

/// A service that fails before the body and closes the connection has not accepted the login.
#[test]
fn an_empty_body_accepts_only_with_its_length() {
    run(|service, fetcher, _| async move {
        let logins = service_with(options());
        let verify = async |password| logins.verify(candidate(password), 1, &fetcher).await;
        service.is_closing.set(true);
        for (head, expected) in [
            ("HTTP/1.0 200 X\r\n\r\n", Err(CallOutError::Unavailable)),
            ("HTTP/1.1 200 X\r\n\r\n", Err(CallOutError::Unavailable)),
            (
                "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n",
                Err(CallOutError::Unavailable),
            ),
            ("HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Ok(true)),
            ("HTTP/1.1 204 X\r\n\r\n", Ok(true)),
            ("HTTP/1.0 200 X\r\nContent-Length: 0\r\n\r\n", Ok(true)),
            ("HTTP/1.0 200 X\r\n\r\nok", Ok(true)),
        ] {
            *service.answer.borrow_mut() = head.into();
            assert_eq!(verify(head).await, expected, "{head}");
        }
    });
}

#[test]
fn without_the_service_known_logins_are_accepted() {
    run(|service, fetcher, stage| async move {
        let logins = service_with(options());
        service.answers(200, "", "ok");
        assert_eq!(logins.verify(candidate("apple"), 1, &fetcher).await, Ok(true));
        for (status, body) in [(500, ""), (200, "<html>"), (302, ""), (200, &*"x".repeat(100_000))]
        {
            service.answers(status, "", body);
            let verified = logins.verify(candidate("pear"), 1, &fetcher).await;
            assert_eq!(verified, Err(CallOutError::Unavailable), "{status}");
        }
        assert_eq!(service.count(), 5);
        // No answer at all: requests and waits are limited in number and time.
        service.answer.borrow_mut().clear();
        let (start, done) = (now(), Rc::new(Cell::new(0)));
        for n in 0..20 {
            let (logins, fetcher, done) = (logins.clone(), fetcher.clone(), done.clone());
            let login = move |_| async move {
                let password = n.to_string();
                let verified = logins.verify(candidate(&password), 1, &fetcher).await;
                assert_eq!(verified, Err(CallOutError::Unavailable));
                done.set(done.get() + 1);
            };
            stage.dispatch(login).unwrap();
        }
        while done.get() < 20 {
            assert!(service.open.get() <= 4, "two are closing, and two are open");
            sleep(Duration::from_millis(100)).await;
        }
        assert!((now() - start).as_secs() <= 5);
        assert_eq!(logins.verify(candidate("apple"), 1, &fetcher).await, Ok(true));
        // It is asked again as soon as it answers, and connections are used again.
        service.answers(204, "", "");
        seconds(5).await;
        let before = service.connections.get();
        for n in 100..110 {
            let verified = logins.verify(candidate(&n.to_string()), 1, &fetcher).await;
            assert_eq!(verified, Ok(true));
        }
        assert_eq!(service.connections.get(), before + 1);
        seconds(10).await;
        assert_eq!(service.open.get(), 0, "unused connections are closed");
    });
}

#[test]
fn denied_logins_lock_out_a_user() {
    run(|service, fetcher, _| async move {
        let logins = service_with(options());
        service.answers(200, "", "");
        assert_eq!(logins.verify(candidate("apple"), 1, &fetcher).await, Ok(true));
        service.answers(403, "", "");
        for n in 0..PAIR_FAILURES {
            let denied = logins.verify(candidate(&n.to_string()), 1, &fetcher).await;
            assert_eq!(denied, Ok(false));
        }
        for (password, name) in [("x", "another"), ("0", "a kept answer")] {
            let found = logins.verify(candidate(password), 1, &fetcher).await;
            let is_refused = matches!(found, Err(CallOutError::Refused(Refusal::LockedOut(_))));
            assert!(is_refused, "{name}: {found:?}");
        }
        assert_eq!(logins.verify(candidate("apple"), 1, &fetcher).await, Ok(true));
        assert_eq!(logins.verify(candidate("x"), 2, &fetcher).await, Ok(false), "another address");
    });
}
