//! Simulation of the reverse proxy. Clients pipeline requests with and without bodies, and leave in between; servers are
//! slow, divide their responses anywhere, close connections at every point and fail; the network resets connections and
//! the program shuts down. Each request is answered at most once, in order, and only by the response to itself. Some
//! servers speak HTTP/2 (`multiplexed.rs`); one of these restarts, or refuses requests.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use phalanx::net::{IoTimeout, Listener, Stream};
use phalanx::sim::{self, Client, Faults, Net, World};
use phalanx::{Graph, SharedStage, sleep};
use phalanx_http::client::{Content, parse_response};
use phalanx_http::{Body, BodyParser, Limits, Parse, parse};
use phalanx_web::{Config, HealthCheck, Proxy, Scheme, Server};

use crate::simulation::multiplexed;
use crate::simulation::proxied_request::{ProxiedRequest, random_length};
use crate::simulation::site::address;

/// Longer than a run.
const DAY: Duration = Duration::from_secs(86_400);

/// Conditions of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conditions {
    /// The network fails.
    has_faults: bool,
    /// Servers fail.
    pub(super) has_failing_servers: bool,
    /// Servers with HTTP/1.1 close unused connections without announcing it.
    closes: bool,
    /// All servers speak HTTP/2.
    is_multiplexed: bool,
    /// The time at which the first server restarts, if it speaks HTTP/2.
    pub(super) restarts: Option<Duration>,
    /// Servers with HTTP/2 refuse some requests, which may be sent again.
    pub(super) refuses_requests: bool,
    /// Bounds and time limits are small.
    has_tight_limits: bool,
    /// Clients leave before their responses.
    clients_leave: bool,
    /// The program drains while clients are connected.
    shuts_down: bool,
}

impl Conditions {
    /// Whether a request may remain without a response of a server.
    fn may_fail(self, request: &ProxiedRequest) -> bool {
        let is_fair = !self.has_faults
            && !self.has_failing_servers
            && !self.has_tight_limits
            && !self.shuts_down;
        let is_repeated = request.method == "GET" || request.method == "HEAD";
        let is_cut = self.closes && !self.is_multiplexed && !is_repeated;
        // The client may not have sent all of the body yet, and a server with HTTP/1.1 takes it only from the client.
        let is_unprocessed = self.restarts.is_some() || self.refuses_requests;
        !is_fair || is_cut || is_unprocessed && request.has_body()
    }
}

/// How often each request has reached a server.
pub(super) type RequestCounts = Rc<RefCell<HashMap<String, usize>>>;

/// State that the servers share.
pub(super) type Context = (Net, Conditions, RequestCounts);

/// Counts a request that a server processes.
pub(super) fn count_request(counts: &RequestCounts, name: &str, may_repeat: bool) {
    if name != "health" {
        let mut counts = counts.borrow_mut();
        let count = counts.entry(name.to_owned()).or_default();
        *count += 1;
        assert!(*count <= 1 + usize::from(may_repeat), "{name} is processed {count} times");
    }
}

async fn run_client(net: Net, conditions: Conditions, client: u64) {
    let Ok(mut wire) = net.connect(address()).await else {
        assert!(conditions.shuts_down, "the server listens until it is asked to finish");
        return;
    };
    let mut received = Vec::new();
    for round in 0..1 + net.draw(3) {
        let name = |n| format!("{client}-{round}-{n}");
        let requests: Vec<_> =
            (0..1 + net.draw(4)).map(|n| ProxiedRequest::random(&net, name(n))).collect();
        let text: String = requests.iter().map(|request| &*request.text).collect();
        let (mut rest, mut is_late) = (text.as_bytes(), false);
        while !rest.is_empty() {
            let length =
                if net.draw(3) == 0 { rest.len() as u64 } else { 1 + net.draw(rest.len() as u64) };
            if wire.write_all(&rest[..length as usize]).await.is_err() {
                break;
            }
            rest = &rest[length as usize..];
            let pause = if net.draw(8) == 0 { 100_000 } else { 5000 };
            let written_at = net.now();
            net.sleep(Duration::from_micros(net.draw(pause))).await;
            // The time that the server waits for input after a response that closes the connection. Then it resets it.
            is_late |= net.now() - written_at >= Duration::from_secs(5);
        }
        for request in &requests {
            if conditions.clients_leave && net.draw(4) == 0 {
                net.sleep(Duration::from_micros(net.draw(3_000_000))).await;
                return if net.draw(2) == 0 { wire.reset() } else { drop(wire) };
            }
            match response(&mut wire, &mut received, request, conditions).await {
                Some(true) => (),
                Some(false) => return,
                None => {
                    let may_fail = is_late || conditions.may_fail(request);
                    assert!(may_fail, "no response to {} in {conditions:?}", request.name);
                    return;
                }
            }
        }
    }
    let _ = wire.shutdown(Shutdown::Write);
    while matches!(wire.read(&mut received).await, Ok(1..)) {}
    assert!(received.is_empty(), "a response too many: {:?}", String::from_utf8_lossy(&received));
}

/// Reads a response and checks it. Returns whether the connection stays open; `None` if the response is incomplete.
async fn response(
    wire: &mut Client,
    received: &mut Vec<u8>,
    request: &ProxiedRequest,
    conditions: Conditions,
) -> Option<bool> {
    let head = loop {
        if let Some(head) = parse_response(received, request.method == "HEAD").expect("a response")
        {
            break head;
        }
        read(wire, received).await?;
    };
    let Content::Framed(framing) = head.content else {
        panic!("its end is that of the connection")
    };
    let limits = Limits { body: u64::MAX, ..Limits::default() };
    let (mut parser, mut body) = (BodyParser::new(framing, &limits).unwrap(), Vec::new());
    received.drain(..head.head);
    loop {
        let taken = parser.copy(received, &mut body).expect("a body");
        received.drain(..taken);
        if parser.is_done() {
            break;
        }
        let is_own = head.status != 200 || is_start(&body, request);
        assert!(is_own, "another response to {} in {conditions:?}", request.name);
        read(wire, received).await?;
    }
    match head.status {
        200 => {
            let text = String::from_utf8(body).unwrap();
            let mut parts = text.splitn(3, ' ');
            if request.method == "HEAD" {
                assert_eq!(text, "");
            } else {
                assert_eq!(parts.next(), Some(&*request.name), "the response to another request");
                let length = parts.next().and_then(|length| length.parse::<usize>().ok());
                // Some servers answer before they have read the body.
                assert!(
                    length.is_some_and(|length| length <= request.body),
                    "{length:?} bytes of the body of {}",
                    request.name
                );
                assert!(parts.next().is_some_and(|rest| rest.ends_with('.')), "the end");
            }
        }
        502..=504 => {
            assert!(
                conditions.may_fail(request),
                "{} to {} in {conditions:?}",
                head.status,
                request.name
            )
        }
        // Time may pass at any step, so a client can be late.
        408 => assert!(
            conditions.has_tight_limits && request.body > 0,
            "408 to {} in {conditions:?}",
            request.name
        ),
        status => panic!("{status} to {} in {conditions:?}", request.name),
    }
    Some(head.keep_alive)
}

/// Whether a response to this request may start with `body`.
fn is_start(body: &[u8], request: &ProxiedRequest) -> bool {
    let start = format!("{} ", request.name);
    let length = start.len().min(body.len());
    body[..length] == start.as_bytes()[..length]
}

async fn read(wire: &mut Client, received: &mut Vec<u8>) -> Option<()> {
    matches!(wire.read(received).await, Ok(1..)).then_some(())
}

/// Addresses of the servers behind the proxy.
fn servers() -> [SocketAddr; 2] {
    [8081, 8082].map(|port| (Ipv4Addr::LOCALHOST, port).into())
}

/// Accepts connections of the proxy.
async fn accept(
    listener: Listener,
    stage: SharedStage<()>,
    (is_http2, restarts): (bool, Option<Duration>),
    (net, conditions, counts): Context,
) {
    while let Some(stream) = listener.accept_next().await {
        let (net, counts) = (net.clone(), counts.clone());
        let _ = stage.dispatch(move |_| async move {
            if is_http2 {
                return Box::pin(multiplexed::serve(
                    stream,
                    stage,
                    restarts,
                    (net, conditions, counts),
                ))
                .await;
            }
            let mut input = Vec::new();
            while serve(&stream, &mut input, &net, conditions, &counts).await.is_some() {}
        });
    }
}

/// Serves one request. Returns `None` at the end of the connection.
async fn serve(
    stream: &Stream,
    input: &mut Vec<u8>,
    net: &Net,
    conditions: Conditions,
    counts: &RequestCounts,
) -> Option<()> {
    let (name, is_head, may_repeat, framing, length) = loop {
        if let Parse::Complete(request, length) =
            parse(input, &Limits::default()).expect("a request")
        {
            let method = request.method.as_str();
            let may_repeat = request.body == Body::None && method != "POST";
            break (
                request.path[1..].to_owned(),
                method == "HEAD",
                may_repeat,
                request.body,
                length,
            );
        }
        let idle = IoTimeout::NONE;
        let idle = if input.is_empty() { idle.until_shutdown() } else { idle };
        matches!(stream.read(input, idle).await, Ok(1..)).then_some(())?;
    };
    input.drain(..length);
    count_request(counts, &name, may_repeat);
    let limits = Limits { body: u64::MAX, ..Limits::default() };
    let (mut parser, mut body) = (BodyParser::new(framing, &limits).unwrap(), Vec::new());
    let fault = if conditions.has_failing_servers { net.draw(8) } else { 8 };
    let is_early = net.draw(4) == 0;
    loop {
        let taken = parser.copy(input, &mut body).expect("a body");
        input.drain(..taken);
        if parser.is_done() || is_early {
            break;
        }
        matches!(stream.read(input, IoTimeout::NONE).await, Ok(1..)).then_some(())?;
    }
    let length = body.len();
    match fault {
        1 => return None,
        2 => sleep(Duration::from_secs(100)).await,
        _ if is_early => (),
        _ => sleep(Duration::from_micros(net.draw(20_000))).await,
    }
    let content = format!("{name} {} {}.", length, "r".repeat(random_length(net, 10_000)));
    let (mut bytes, closes) = answer(net, &content, is_head);
    // The close of the connection ends some responses, so nobody can tell that a part is missing.
    if fault == 3 && !closes {
        bytes.truncate(net.draw(bytes.len() as u64) as usize);
    }
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let length =
            if net.draw(3) == 0 { rest.len() } else { 1 + net.draw(rest.len() as u64) as usize };
        stream.write(rest[..length].to_vec(), IoTimeout::NONE).await.ok()?;
        rest = &rest[length..];
        if net.draw(3) == 0 {
            sleep(Duration::from_micros(net.draw(5000))).await;
        }
    }
    while !parser.is_done() {
        let taken = parser.copy(input, &mut body).expect("a body");
        input.drain(..taken);
        if !parser.is_done() {
            matches!(stream.read(input, IoTimeout::NONE).await, Ok(1..)).then_some(())?;
        }
    }
    let ends = closes || matches!(fault, 0 | 3) || conditions.closes && net.draw(3) == 0;
    (!ends).then_some(())
}

/// A response with this content, and whether the connection closes behind it.
fn answer(net: &Net, content: &str, is_head: bool) -> (Vec<u8>, bool) {
    let interim =
        if net.draw(5) == 0 { "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" } else { "" };
    let (framing, body) = match net.draw(6) {
        0..3 => (format!("Content-Length: {}\r\n", content.len()), content.to_owned()),
        3..5 => {
            let (one, other) = content.split_at(net.draw(content.len() as u64) as usize);
            let chunk = |part: &str| match part.len() {
                0 => String::new(),
                length => format!("{length:x}\r\n{part}\r\n"),
            };
            let chunks = format!("{}{}0\r\n\r\n", chunk(one), chunk(other));
            ("Transfer-Encoding: chunked\r\n".to_owned(), chunks)
        }
        _ => ("Connection: close\r\n".to_owned(), content.to_owned()),
    };
    let closes = framing.starts_with("Connection");
    let body = if is_head { "" } else { &body };
    (format!("{interim}HTTP/1.1 200 OK\r\n{framing}\r\n{body}").into_bytes(), closes)
}

/// The first server speaks HTTP/2 if `speak_http2`, and then often the second one.
pub(super) fn proxy(world: &mut World, speak_http2: bool) {
    let used = 1 + world.draw(2) as usize;
    let mut one_in = |bound| world.draw(bound) == 0;
    // The second server sometimes speaks HTTP/1.1.
    let speaks = [speak_http2, speak_http2 && !one_in(3)];
    let is_multiplexed = speaks[..used] == [true; 2][..used];
    let (has_faults, restarts) = (one_in(3), speak_http2 && one_in(3));
    let conditions = Conditions {
        has_faults,
        has_failing_servers: one_in(2),
        closes: one_in(3),
        is_multiplexed,
        refuses_requests: is_multiplexed && !restarts && one_in(3),
        has_tight_limits: one_in(3),
        clients_leave: one_in(2),
        shuts_down: one_in(5),
        restarts: restarts.then(|| Duration::from_micros(world.draw(200_000))),
    };
    if conditions.has_faults {
        world.set_faults(Faults::random(world.seed()));
    }
    world.set_max_steps(1_000_000);
    let mut rule = Proxy { prefix: "/".into(), ..Proxy::default() };
    let url = |(server, is_http2)| {
        let scheme = if is_http2 { "h2c" } else { "http" };
        format!("{scheme}://{server}").parse().unwrap()
    };
    rule.to = servers().into_iter().zip(speaks).take(used).map(url).collect();
    (rule.connect_timeout, rule.response_timeout, rule.idle_timeout) = (DAY, DAY, DAY);
    if conditions.has_tight_limits {
        rule.connect_timeout = Duration::from_millis(world.draw(100) + 1);
        rule.response_timeout = Duration::from_millis(world.draw(10_000) + 1);
        rule.idle_timeout = Duration::from_millis(world.draw(10_000) + 500);
        rule.max_queue = world.draw(3) as usize;
    }
    // If a slot got lost, the next request would wait for a day and get 503.
    rule.max_requests = 1 + world.draw(4) as usize;
    rule.max_idle = world.draw(4) as usize;
    rule.keep_alive = Duration::from_millis(world.draw(20_000) + 1);
    rule.health = (world.draw(3) == 0).then(|| HealthCheck {
        path: "/health".into(),
        interval: Duration::from_millis(500),
        ..HealthCheck::default()
    });
    let mut config = Config::new();
    config.runtime.workers = world.processors();
    config.hash_seed = Some(world.seed());
    config.listen = vec![Scheme::Http.at(address())];
    config.max_queue_delay = None;
    let timeouts = &mut config.timeouts;
    (timeouts.request, timeouts.idle, timeouts.send) = (DAY, DAY, DAY);
    config.hosts[0].proxies = vec![rule];
    let mut graph = Graph::new();
    let server = Server::declare(&mut graph, &config, [world.root()]).expect("all is there");
    let stage = graph.shared("servers", ());
    let (net, counts) = (world.net(), RequestCounts::default());
    let proxy_listeners = world.listen(address());
    let backend_listeners = servers().map(|address| world.listen(address));
    world.program(graph, move |start| {
        let restarts = [conditions.restarts, None];
        for (back, own) in backend_listeners.iter().zip(speaks.into_iter().zip(restarts)) {
            let listener = back.listener(start)?;
            let context = (net.clone(), conditions, counts.clone());
            stage.dispatch(move |_| accept(listener, stage, own, context))?;
        }
        Ok(server.accept([proxy_listeners.listener(start)?])?)
    });
    if conditions.shuts_down {
        let net = world.net();
        world.client(async move {
            net.sleep(Duration::from_micros(net.draw(200_000))).await;
            net.drain();
        });
    }
    let count = 1 + world.draw(6);
    let left = Rc::new(Cell::new(count));
    for client in 0..count {
        let (net, left) = (world.net(), left.clone());
        world.client(async move {
            run_client(net.clone(), conditions, client).await;
            left.set(left.get() - 1);
            // While servers are checked, the program is never at rest.
            if left.get() == 0 {
                net.drain();
            }
        });
    }
}

#[test]
fn each_request_gets_its_own_response() {
    sim::explore(60, |world| proxy(world, false));
}
