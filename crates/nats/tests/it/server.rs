//! Tests of the client against a real server.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use phalanx::net::Resolver;
use phalanx::shutdown::draining;
use phalanx::{Graph, Runtime, SharedStage, sleep};
use phalanx_nats::{Access, Client, Credentials, OnState, Options, Question, Rejected, survey};
use phalanx_testkit::authority::Authority;
use phalanx_testkit::nats::NatsServer;
use phalanx_testkit::tcp::unique_loopback;
use phalanx_testkit::within_limit;
use phalanx_tls::Connector;

/// The stages of a test.
pub(crate) type Stages = (SharedStage<()>, Resolver);

fn stages(graph: &mut Graph) -> Stages {
    let resolver = Resolver::declare(graph);
    (graph.stage("clients").shared(()), resolver)
}

/// Runs a test on one processor.
pub(crate) fn run<F: Future<Output = ()> + 'static>(
    test: impl FnOnce(Stages) -> F + Send + 'static,
) {
    within_limit(move || Runtime::new().signals(false).block_on(stages, test).unwrap());
}

/// Starts a client.
pub(crate) fn start((stage, resolver): Stages, options: Options) -> Client {
    let reconnect_delay = (Duration::from_millis(10), Duration::from_millis(50));
    let client = Client::new(Options { reconnect_delay, ..options }, resolver);
    let running = client.clone();
    stage.dispatch(move |_| async move { running.run().await }).unwrap();
    client
}

pub(crate) fn options(url: &str) -> Options {
    options_with(url, Credentials::None)
}

fn options_with(url: &str, credentials: Credentials) -> Options {
    Options { access: access(url, credentials), ..Options::default() }
}

fn access(url: &str, credentials: Credentials) -> Access {
    Access { servers: vec![url.parse().unwrap()], credentials, connector: None }
}

/// Waits until `predicate` is true.
async fn wait_until(predicate: impl Fn() -> bool) {
    while !predicate() {
        sleep(Duration::from_millis(1)).await;
    }
}

/// The payloads that a subscription receives.
fn received(client: &Client, filter: &str, queue: Option<&str>) -> Rc<RefCell<Vec<Vec<u8>>>> {
    let all = Rc::new(RefCell::new(Vec::new()));
    let messages = all.clone();
    client.subscribe(filter, queue, move |message| {
        messages.borrow_mut().push(message.payload.to_vec())
    });
    all
}

#[test]
fn messages_pass_by_filter_and_group() {
    let Some(server) = NatsServer::start("") else { return };
    let url = server.url();
    run(|stages| async move {
        let client = start(stages, options(&url));
        assert_eq!(client.publish("a", None, None, b""), Err(Rejected::Disconnected));
        let (all, none) = (received(&client, "a.>", None), received(&client, "b", None));
        let groups = [0, 1].map(|_| received(&client, "a.*", Some("group")));
        let answers = received(&client, "answers", None);
        let receiver = client.clone();
        client.subscribe("questions", None, move |message| {
            assert_eq!(message.headers, Some(&b"NATS/1.0\r\nA: b\r\n\r\n"[..]));
            receiver.publish(message.reply.unwrap(), None, None, b"answer").unwrap();
        });
        client.connected().await;
        for n in 0..100 {
            client.publish("a.x", None, None, format!("{n}").as_bytes()).unwrap();
        }
        client.publish("a.x.y", None, None, &vec![7; 1 << 20]).unwrap();
        let headers = Some(&b"NATS/1.0\r\nA: b\r\n\r\n"[..]);
        client.publish("questions", Some("answers"), headers, b"question").unwrap();
        wait_until(|| answers.borrow().len() == 1).await;
        assert_eq!(all.borrow().len(), 101);
        assert!((0..100).all(|n| all.borrow()[n] == n.to_string().into_bytes()), "in order");
        assert_eq!(groups.each_ref().map(|group| group.borrow().len()).iter().sum::<usize>(), 100);
        assert!(none.borrow().is_empty());
        let undelivered = Rc::new(RefCell::new(false));
        let sink = undelivered.clone();
        client.subscribe("nobody", None, move |message| {
            sink.replace(message.is_undelivered());
        });
        client.publish("c", Some("nobody"), None, b"question").unwrap();
        wait_until(|| *undelivered.borrow()).await;
        let too_large = vec![0; client.max_payload().unwrap() + 1];
        assert_eq!(
            client.publish("a", None, None, &too_large),
            Err(Rejected::TooLarge((1 << 20) + 1, 1 << 20))
        );
        assert_eq!(client.publish("a b", None, None, b""), Err(Rejected::Subject));
        client.stop();
    });
}

#[test]
fn the_client_returns_after_a_restart_of_the_server() {
    let Some(mut server) = NatsServer::start("") else { return };
    let url = server.url();
    run(|stages| async move {
        let options = options(&url);
        let metrics = options.metrics.clone();
        let client = start(stages, options);
        let all = received(&client, "a", None);
        client.connected().await;
        server.stop();
        wait_until(|| !client.is_connected()).await;
        server.restart();
        client.connected().await;
        client.publish("a", None, None, b"again").unwrap();
        wait_until(|| all.borrow().len() == 1).await;
        assert_eq!(metrics.connections.count(), 2);
        client.stop();
    });
}

#[test]
fn memory_of_unsent_messages_is_bounded() {
    let Some(server) = NatsServer::start("") else { return };
    let url = server.url();
    run(move |stages| async move {
        let options = Options { max_pending: 1000, ..options(&url) };
        let metrics = options.metrics.clone();
        let client = start(stages, options);
        client.connected().await;
        let results: Vec<_> = (0..3).map(|_| client.publish("a", None, None, &[0; 400])).collect();
        assert!(
            matches!(results[..], [Ok(()), Ok(()), Err(Rejected::Full(800..=1000))]),
            "{results:?}"
        );
        assert_eq!(metrics.dropped.count(), 1);
        wait_until(|| client.unsent() == 0).await;
        client.publish("a", None, None, &[0; 400]).unwrap();
        client.stop();
    });
}

#[test]
fn messages_at_shutdown_are_sent() {
    let Some(server) = NatsServer::start("") else { return };
    let url = server.url();
    run(move |stages| async move {
        let client = start(stages, options(&url));
        let all = received(&client, "a", None);
        client.connected().await;
        client.publish("a", None, None, b"first").unwrap();
        wait_until(|| all.borrow().len() == 1).await;
        let other = std::thread::spawn(move || {
            run(move |stages| async move {
                let client = start(stages, options(&url));
                client.connected().await;
                let last = client.clone();
                let sent = stages.0.dispatch(move |_| async move {
                    draining().await;
                    last.publish("a", None, None, b"last").unwrap();
                    last.stop();
                });
                sent.unwrap();
            });
        });
        wait_until(|| all.borrow().len() == 2).await;
        other.join().unwrap();
        client.stop();
    });
}

#[test]
fn passwords_tokens_and_permissions() {
    let lines = "authorization { users: [ { user: u, password: p, permissions: { subscribe: \"a.>\" } } ] }";
    let Some(server) = NatsServer::start(lines) else { return };
    let Some(of_token) = NatsServer::start("authorization { token: secret }") else { return };
    let (address, url, of_token_url) = (server.address, server.url(), of_token.url());
    run(move |stages| async move {
        let errors = Rc::new(RefCell::new(Vec::new()));
        let sink = errors.clone();
        let on_error: Rc<dyn Fn(&str)> =
            Rc::new(move |message| sink.borrow_mut().push(message.to_owned()));
        let credentials = Credentials::User("u".into(), "p".into());
        let client = start(stages, Options { on_error, ..options_with(&url, credentials) });
        client.connected().await;
        received(&client, "b", None);
        wait_until(|| !errors.borrow().is_empty()).await;
        assert!(errors.borrow()[0].contains("Permissions Violation"), "{errors:?}");
        assert!(client.is_connected());
        client.stop();
        let client = start(stages, options(&format!("nats://u:p@{address}")));
        client.connected().await;
        client.stop();
        let credentials = Credentials::Token("secret".into());
        let client = start(stages, options_with(&of_token_url, credentials));
        client.connected().await;
        client.stop();
        let failed = Rc::new(RefCell::new(None));
        let sink = failed.clone();
        let on_state: OnState = Rc::new(move |state| {
            if let Err(error) = state {
                sink.replace(Some(error));
            }
        });
        let client = start(stages, Options { on_state, ..options(&of_token_url) });
        wait_until(|| failed.borrow().is_some()).await;
        assert!(
            failed.borrow().as_ref().unwrap().contains("Authorization Violation"),
            "{failed:?}"
        );
        // The next attempt has the new token.
        client.renew(access(&of_token_url, Credentials::Token("secret".into())));
        client.connected().await;
        client.stop();
    });
    drop((server, of_token));
}

#[test]
fn connections_are_encrypted() {
    let authority = Authority::new();
    let host = unique_loopback();
    let pair = authority.sign("server", &[&host.to_string()]);
    let (certificate, key) = (pair.certificate.display(), pair.key.display());
    let lines = format!("tls {{ cert_file: \"{certificate}\", key_file: \"{key}\" }}");
    let Some(server) = NatsServer::start_at(host, &lines) else { return };
    let connector = Connector::load(Some(&authority.certificate()), None, &[]).unwrap();
    let url = format!("tls://{}", server.address);
    run(|stages| async move {
        let access = Access { connector: Some(connector), ..access(&url, Credentials::None) };
        let client = start(stages, Options { access, ..Options::default() });
        let all = received(&client, "a", None);
        client.connected().await;
        client.publish("a", None, None, b"secret").unwrap();
        wait_until(|| all.borrow().len() == 1).await;
        client.stop();
    });
}

#[test]
fn servers_tell_their_properties() {
    let Some(server) = NatsServer::start("max_payload: 70000\nauthorization { token: t }") else {
        return;
    };
    let limit = Duration::from_secs(30);
    let mut valid_access = access(&server.url(), Credentials::Token("t".into()));
    valid_access.servers.push("nats://127.0.0.1:1".parse().unwrap());
    let found = survey(valid_access.clone(), limit, None);
    assert_eq!(found[0].as_ref().map(|info| info.max_payload), Ok(70_000));
    let question = Question { inbox: "check".into(), subjects: "a.*".into() };
    let found = survey(valid_access, limit, Some(question));
    let used = found[0].as_ref().unwrap().jetstream.clone().unwrap().unwrap();
    assert_eq!((used.account.streams, used.account.limits.max_streams), (0, -1));
    assert!(!used.has_stream);
    assert!(found[1].as_ref().is_err_and(|error| error.contains("refused")), "{found:?}");
    let found = survey(access(&server.url(), Credentials::None), limit, None);
    assert!(found[0].as_ref().is_err_and(|error| error.contains("Authorization")), "{found:?}");
}
