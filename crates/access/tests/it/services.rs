//! HTTP services in simulation: keys of tokens at a URL, and logins that a service decides.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use base64ct::{Base64UrlUnpadded, Encoding};
use phalanx::blocking::blocking;
use phalanx::metrics::Counter;
use phalanx::net::{IoTimeout, Listener, Stream};
use phalanx::sim::{self, Bounds};
use phalanx::time::now;
use phalanx::{Graph, SharedStage, sleep};
use phalanx_access::{
    CallOutOptions, CallOuts, Candidate, Claims, Endpoint, Fetcher, Jwt, KEYS_MISSING, RemoteKeys,
    Undecided,
};
use phalanx_guard::{PAIR_FAILURES, Refusal};
use ring::signature::{Ed25519KeyPair, KeyPair};

const URL: &str = "http://127.0.0.1:8080/path";

const CLOSE: &str = "close";

fn address() -> SocketAddr {
    ([127, 0, 0, 1], 8080).into()
}

/// A service with one answer at a time. If it is empty, the service never answers; if it is [`CLOSE`], the service closes the
/// connection.
#[derive(Clone, Default)]
struct Service {
    answer: Rc<RefCell<String>>,
    requests: Rc<RefCell<Vec<String>>>,
    connections: Rc<Cell<usize>>,
    open: Rc<Cell<usize>>,
    /// Whether it closes the connection after each answer.
    is_closing: Rc<Cell<bool>>,
}

impl Service {
    fn answers(&self, status: u16, fields: &str, body: &str) {
        let length = body.len();
        *self.answer.borrow_mut() =
            format!("HTTP/1.1 {status} X\r\n{fields}Content-Length: {length}\r\n\r\n{body}");
    }

    fn count(&self) -> usize {
        self.requests.borrow().len()
    }

    async fn accept(self, listener: Listener, stage: SharedStage<()>) {
        while let Ok(stream) = listener.accept().await {
            let own = self.clone();
            stage.dispatch(move |_| async move { own.serve(stream).await }).unwrap();
        }
    }

    async fn serve(self, stream: Stream) {
        self.connections.set(self.connections.get() + 1);
        self.open.set(self.open.get() + 1);
        let mut input = Vec::new();
        while stream.read(&mut input, IoTimeout::NONE.until_shutdown()).await.is_ok_and(|n| n > 0) {
            let text = String::from_utf8(input.clone()).unwrap();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            if body.len() < length.map_or(0, |length| length.parse().unwrap()) {
                continue;
            }
            self.requests.borrow_mut().push(text);
            input.clear();
            let answer = self.answer.borrow().clone();
            if answer == CLOSE {
                break;
            }
            if !answer.is_empty() {
                // The client may close the connection before it has read all of a long answer.
                let _ = stream.write(answer.into_bytes(), IoTimeout::NONE).await;
            }
            if self.is_closing.get() {
                break;
            }
        }
        self.open.set(self.open.get() - 1);
    }
}

/// Sets a flag when it is dropped, also by a panic.
struct Over(Rc<Cell<bool>>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

/// Runs `test` with a service, a fetcher and the stage for further operations.
fn run<F: Future<Output = ()> + 'static>(
    test: impl Fn(Service, Fetcher, SharedStage<()>) -> F + Copy + 'static,
) {
    // Schedules in which time does not pass early, because the tests measure it.
    let mut bounds = Bounds::default();
    (bounds.steps, bounds.runs, bounds.deviations) = (100_000, 5, Some(1));
    let coverage = sim::explore_all(bounds, move |world| {
        world.set_processors(1);
        let mut graph = Graph::new();
        let resolver = blocking(&mut graph, "resolver").threads(1).state(());
        let stage = graph.stage("control").shared(());
        let listeners = RefCell::new(world.listen(address()));
        let (is_over, has_passed) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
        // The program drains when this client has finished.
        let (over, net) = (is_over.clone(), world.net());
        world.client(async move {
            while !over.get() {
                net.sleep(Duration::from_millis(100)).await;
            }
        });
        // A panic ends only its operation.
        let passed = has_passed.clone();
        world.at_rest(move || assert!(passed.get(), "the test has panicked"));
        world.program(graph, move |_| {
            let listener = Listener::new(listeners.borrow_mut().pop().expect("one"))?;
            let (service, guard) = (Service::default(), Over(is_over.clone()));
            let passed = has_passed.clone();
            let own = service.clone();
            stage.dispatch(move |_| own.accept(listener, stage))?;
            let counter = || Counter::new("fetches", "");
            let fetcher = Fetcher { stage, resolver, fetched: counter(), failed: counter() };
            stage.dispatch(move |_| async move {
                let _guard = guard;
                test(service, fetcher, stage).await;
                passed.set(true);
            })?;
            Ok(())
        });
    });
    assert_eq!(coverage.cut, 0, "{coverage}");
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    Base64UrlUnpadded::encode_string(bytes.as_ref())
}

/// The key whose seed is the same byte 32 times.
fn pair(key: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[key; 32]).unwrap()
}

fn token(key: u8) -> Vec<u8> {
    let header = format!(r#"{{"alg":"EdDSA","kid":"{key}"}}"#);
    let claims = r#"{"sub":"eve","exp":2000}"#;
    let signed = format!("{}.{}", encoded(header), encoded(claims));
    let signature = pair(key).sign(signed.as_bytes());
    format!("{signed}.{}", encoded(signature)).into()
}

fn key_set(keys: &[u8]) -> String {
    let key = |key: &u8| {
        let x = encoded(pair(*key).public_key());
        format!(r#"{{"kty":"OKP","crv":"Ed25519","kid":"{key}","x":"{x}"}}"#)
    };
    format!(r#"{{"keys":[{}]}}"#, keys.iter().map(key).collect::<Vec<_>>().join(","))
}

fn by_url(earlier: Option<&Jwt>) -> Jwt {
    let endpoint = Endpoint::open(URL, None).unwrap();
    let keys = RemoteKeys::new(endpoint, earlier.and_then(Jwt::remote_keys));
    Jwt::remote(keys, Claims { user: "sub".into(), ..Claims::default() })
}

async fn seconds(count: u64) {
    sleep(Duration::from_secs(count)).await;
}

#[test]
fn keys_are_fetched_when_they_are_needed() {
    run(|service, fetcher, stage| async move {
        let jwt = Rc::new(by_url(None));
        let verify = async |key| jwt.verify_with(&fetcher, &token(key), 1000).await;
        // A failure is not repeated at once.
        service.answers(500, "", "");
        for _ in 0..3 {
            assert_eq!(verify(1).await, Err(KEYS_MISSING));
        }
        assert_eq!(service.count(), 1);
        seconds(2).await;
        service.answers(200, "Cache-Control: max-age=120\r\n", &key_set(&[1]));
        for _ in 0..3 {
            assert_eq!(verify(1).await.as_deref(), Ok("eve"));
        }
        assert_eq!(service.count(), 2);
        assert!(service.requests.borrow()[1].starts_with("GET /path HTTP/1.1\r\n"));
        // An unknown key causes one fetch in ten seconds, for all logins together.
        service.answers(200, "Cache-Control: max-age=120\r\n", &key_set(&[1, 2]));
        assert!(verify(2).await.is_err());
        assert_eq!(service.count(), 2);
        seconds(11).await;
        let verified = Rc::new(Cell::new(0));
        for _ in 0..20 {
            let (jwt, fetcher, verified) = (jwt.clone(), fetcher.clone(), verified.clone());
            let login = move |_| async move {
                let user = jwt.verify_with(&fetcher, &token(2), 1000).await;
                assert_eq!(user.as_deref(), Ok("eve"));
                verified.set(verified.get() + 1);
            };
            stage.dispatch(login).unwrap();
        }
        while verified.get() < 20 {
            sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(service.count(), 3);
        // The keys are fetched again at the end of their lifetime.
        service.answers(200, "", &key_set(&[2]));
        seconds(121).await;
        assert!(verify(1).await.is_err());
        assert_eq!((verify(2).await.as_deref(), service.count()), (Ok("eve"), 4));
        // A reload fetches them again. A server that does not answer delays a login by ten seconds at most.
        let reloaded = by_url(Some(&jwt));
        service.answer.borrow_mut().clear();
        let begun = now();
        let user = reloaded.verify_with(&fetcher, &token(2), 1000).await;
        assert_eq!((user.as_deref(), service.count()), (Ok("eve"), 5));
        assert!((9..12).contains(&(now() - begun).as_secs()));
        // Failures leave the keys of the last fetch in use, and further logins do not wait for the next one.
        seconds(2).await;
        let long = "x".repeat(2 << 20);
        for (n, (status, body)) in
            [(503, ""), (200, "{}"), (200, &*long), (302, "")].into_iter().enumerate()
        {
            service.answers(status, "", body);
            let begun = now();
            let user = reloaded.verify_with(&fetcher, &token(2), 1000).await;
            assert_eq!((user.as_deref(), now() - begun), (Ok("eve"), Duration::ZERO));
            seconds(61).await;
            assert_eq!(service.count(), 6 + n);
        }
    });
}

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
    Candidate { user: "eve", password: password.as_bytes(), client_id: "a&b", address }
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
        let wanted =
            r#"{"clientid":"a&b","password":"apple","peerhost":"10.0.0.1","username":"eve"}"#;
        assert_eq!(body, wanted);
        // The service refuses the broker, and not the login.
        service.answers(401, "", "");
        assert_eq!(verify("fig").await, Err(Undecided::Unavailable));
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
        let refused = logins.verify(candidate("p r&"), 1, &fetcher).await;
        let wanted = "username=eve&password=p+r%26&clientid=a%26b&peerhost=10.0.0.1";
        assert!(refused == Ok(false) && service.requests.borrow()[4].ends_with(wanted));
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
        let own = candidate("apple");
        service.answers(200, "", "");
        assert_eq!(verify(own).await, Ok(true));
        service.answers(403, "", "");
        let others = [
            Candidate { user: "bob", ..own },
            Candidate { password: b"appl", ..own },
            Candidate { client_id: "", ..own },
            // The parts of a login are not confused.
            Candidate { user: "eveapple", password: b"", ..own },
            Candidate { address: Some([10, 0, 0, 2].into()), ..own },
            Candidate { address: None, ..own },
        ];
        for (n, other) in others.into_iter().enumerate() {
            assert_eq!((verify(other).await, service.count()), (Ok(false), n + 2), "{n}");
        }
        assert_eq!((verify(own).await, service.count()), (Ok(true), others.len() + 1));
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
        assert_eq!(verify("pear").await, Err(Undecided::Unavailable));
        assert_eq!((service.count(), service.connections.get()), (3, 2));
        service.answers(200, "", "");
        assert_eq!(verify("plum").await, Ok(true));
        // Neither a malformed answer nor the end of the time causes another request.
        service.answers(200, "", &"x".repeat(100_000));
        assert_eq!(verify("pear").await, Err(Undecided::Unavailable));
        assert_eq!(service.count(), 5);
        service.answers(200, "", "");
        assert_eq!(verify("fig").await, Ok(true));
        service.answer.borrow_mut().clear();
        assert_eq!(verify("pear").await, Err(Undecided::Unavailable));
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
        for (head, wanted) in [
            ("HTTP/1.0 200 X\r\n\r\n", Err(Undecided::Unavailable)),
            ("HTTP/1.1 200 X\r\n\r\n", Err(Undecided::Unavailable)),
            ("HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n", Err(Undecided::Unavailable)),
            ("HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Ok(true)),
            ("HTTP/1.1 204 X\r\n\r\n", Ok(true)),
            ("HTTP/1.0 200 X\r\nContent-Length: 0\r\n\r\n", Ok(true)),
            ("HTTP/1.0 200 X\r\n\r\nok", Ok(true)),
        ] {
            *service.answer.borrow_mut() = head.into();
            assert_eq!(verify(head).await, wanted, "{head}");
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
            assert_eq!(verified, Err(Undecided::Unavailable), "{status}");
        }
        assert_eq!(service.count(), 5);
        // No answer at all: requests and waits are limited in number and time.
        service.answer.borrow_mut().clear();
        let (begun, done) = (now(), Rc::new(Cell::new(0)));
        for n in 0..20 {
            let (logins, fetcher, done) = (logins.clone(), fetcher.clone(), done.clone());
            let login = move |_| async move {
                let password = n.to_string();
                let verified = logins.verify(candidate(&password), 1, &fetcher).await;
                assert_eq!(verified, Err(Undecided::Unavailable));
                done.set(done.get() + 1);
            };
            stage.dispatch(login).unwrap();
        }
        while done.get() < 20 {
            assert!(service.open.get() <= 4, "two are closing, and two are open");
            sleep(Duration::from_millis(100)).await;
        }
        assert!((now() - begun).as_secs() <= 5);
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
        let refused = Err(Undecided::Refused(Refusal::LockedOut));
        assert_eq!(logins.verify(candidate("x"), 1, &fetcher).await, refused);
        assert_eq!(logins.verify(candidate("0"), 1, &fetcher).await, refused, "a kept answer");
        assert_eq!(logins.verify(candidate("apple"), 1, &fetcher).await, Ok(true));
        assert_eq!(logins.verify(candidate("x"), 2, &fetcher).await, Ok(false), "another address");
    });
}
