//! The admin API: clients, bans, retained messages and traces.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use phalanx_mqtt::{Packet, QoS, Reason, Version};
use phalanx_testkit::eventually;
use phalanx_testkit::mqtt::{Client, ConnectOptions};
use phalanx_testkit::nats::NatsServer;
use phalanx_testkit::tcp::unique_loopback;
use serde_json::{Value, json};

use crate::broker::process::Broker;

crate::on_one_driver!(
    the_api_needs_a_token,
    clients_are_listed_and_disconnected,
    banned_clients_cannot_connect,
    retained_messages_are_browsed_and_changed,
    messages_of_operators_need_storage,
    a_client_and_a_topic_are_traced,
    bridges_are_listed,
    the_nodes_of_a_cluster_are_listed,
);

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A broker with an admin API.
struct AdminBroker {
    broker: Broker,
    admin: SocketAddr,
    _token: tempfile::NamedTempFile,
}

impl AdminBroker {
    fn start(driver: &str) -> Self {
        Self::start_with(driver, &[])
    }

    /// A broker with additional arguments.
    fn start_with(driver: &str, args: &[&str]) -> Self {
        Self::start_by(|arguments| Broker::start_with(driver, &[arguments, args].concat()))
    }

    /// A broker that gets the arguments of the admin API.
    fn start_by(start: impl FnOnce(&[&str]) -> Broker) -> Self {
        let token = tempfile::NamedTempFile::new().unwrap();
        fs::write(token.path(), TOKEN).unwrap();
        let path = token.path().to_str().unwrap();
        let broker = start(&["--admin", "127.0.0.1:0", "--admin-token-file", path]);
        let admin = broker.admin();
        Self { broker, admin, _token: token }
    }

    /// The status and the body of a response.
    fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let head = format!("Authorization: Bearer {TOKEN}\r\n");
        let body = body.map_or(String::new(), |body| body.to_string());
        request(self.admin, method, &format!("/broker/api/{path}"), &head, &body)
    }

    /// The body of a successful response.
    fn get(&self, path: &str) -> Value {
        let (status, body) = self.call("GET", path, None);
        assert_eq!(status, 200, "{path}: {body}");
        body
    }
}

fn request(admin: SocketAddr, method: &str, path: &str, head: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(admin).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\nContent-Length: {length}\r\n{head}\r\n{body}"
    )
    .unwrap();
    let mut output = String::new();
    stream.read_to_string(&mut output).unwrap();
    let (head, body) = output.split_once("\r\n\r\n").expect(&output);
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|_| body.into()))
}

fn the_api_needs_a_token(driver: &str) {
    let server = AdminBroker::start(driver);
    let status_of = |head: &str| request(server.admin, "GET", "/broker/api/clients", head, "").0;
    assert_eq!(status_of(&format!("Authorization: Bearer {TOKEN}\r\n")), 200);
    for head in [
        "".to_owned(),
        format!("Authorization: Bearer {TOKEN}x\r\n"),
        format!("Authorization: Basic {TOKEN}\r\n"),
        "Authorization: Bearer \r\n".to_owned(),
    ] {
        assert_eq!(status_of(&head), 401, "{head}");
    }
    // A page of another site, and a name that points at this address.
    assert_eq!(
        status_of(&format!("Authorization: Bearer {TOKEN}\r\nOrigin: http://evil.example\r\n")),
        403
    );
    // The page itself contains nothing secret.
    let (status, page) = request(server.admin, "GET", "/broker", "", "");
    assert!(status == 200 && page.as_str().unwrap().contains("<title>phalanx broker</title>"));
    let (status, error) = server.call("GET", "nothing", None);
    assert!(status == 404 && error["error"].as_str().unwrap().contains("no such operation"));
    // Without a token the API is off.
    let broker = Broker::start_with(driver, &["--admin", "127.0.0.1:0"]);
    let (status, error) = request(broker.admin(), "GET", "/broker/api/clients", "", "");
    assert!(status == 403 && error["error"].as_str().unwrap().contains("admin-token-file"));
}

fn clients_are_listed_and_disconnected(driver: &str) {
    let server = AdminBroker::start(driver);
    let mut online = Client::connect_with(&server.broker, &ConnectOptions::persistent("ne/ar")).0;
    online.subscribe("a/+", QoS::AtLeastOnce);
    online.subscribe("$share/g/b", QoS::AtMostOnce);
    let mut offline = Client::connect_with(&server.broker, &ConnectOptions::persistent("away")).0;
    offline.subscribe("a/b", QoS::AtLeastOnce);
    offline.disconnect();
    let mut writer = Client::new(&server.broker, "writer");
    writer.publish("a/b", "x");
    let offline = eventually("the queued message", || {
        let found = server.get("client?client=away");
        (found["queued"] == 1 && found["connected"] == false).then_some(found)
    });
    assert_eq!((&offline["filters"], &offline["expiry_seconds"]), (&json!(["a/b"]), &Value::Null));
    let found = server.get("client?client=ne%2Far");
    assert_eq!(found["filters"], json!(["$share/g/b", "a/+"]));
    assert_eq!((&found["inflight"], &found["version"]), (&json!(1), &json!("5")));
    assert!(found["address"].as_str().unwrap().starts_with("127.0.0.1:"));
    // In pages of one client each.
    let (mut names, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("clients?limit=1{after}"));
        names.extend(page["clients"].as_array().unwrap().iter().map(|one| one["client"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    names.sort_by_key(Value::to_string);
    assert_eq!(names, ["away", "ne/ar", "writer"]);
    assert_eq!(server.get("clients?connected=true")["clients"].as_array().unwrap().len(), 2);
    assert_eq!(server.get("clients?text=wri")["clients"][0]["client"], "writer");
    // Disconnected with a reason, and its session remains.
    assert_eq!(server.call("DELETE", "client?client=ne%2Far", None).0, 200);
    while !matches!(online.next().packet(), Packet::Disconnect(server) if server.reason == Reason::ADMINISTRATIVE_ACTION)
    {
    }
    drop(online);
    eventually("the end of the connection", || {
        (server.get("client?client=ne%2Far")["connected"] == false).then_some(())
    });
    assert_eq!(server.call("DELETE", "client?client=ne%2Far&session=true", None).0, 200);
    for _ in 0..2 {
        assert_eq!(server.call("GET", "client?client=ne%2Far", None).0, 404);
        assert_eq!(server.call("DELETE", "client?client=ne%2Far&session=true", None).0, 404);
    }
}

fn banned_clients_cannot_connect(driver: &str) {
    let server = AdminBroker::start(driver);
    let mut client = Client::new(&server.broker, "c");
    let (status, response) =
        server.call("POST", "bans", Some(json!({ "client": "c", "seconds": 600 })));
    assert_eq!((status, &response["disconnected"]), (200, &json!(1)));
    assert!(matches!(client.next().packet(), Packet::Disconnect(_)));
    assert_eq!(
        Client::expect_rejection(&server.broker, &ConnectOptions::new(Version::V5, "c")),
        Reason::BANNED
    );
    let bans = server.get("bans");
    assert_eq!(bans["bans"][0]["banned"], json!({ "client": "c" }));
    assert!(bans["bans"][0]["seconds_left"].as_u64().unwrap() <= 600);
    assert_eq!(server.call("DELETE", "bans?client=c", None).0, 200);
    Client::new(&server.broker, "c");
    assert_eq!(server.call("POST", "bans", Some(json!({ "address": "127.0.0.1" }))).0, 200);
    assert_eq!(
        Client::expect_rejection(&server.broker, &ConnectOptions::new(Version::V3, "d")),
        Reason::NOT_AUTHORIZED
    );
    // The same address.
    assert_eq!(server.call("DELETE", "bans?address=::ffff:127.0.0.1", None).0, 200);
    for body in [json!({}), json!({ "client": "c", "user": "u" }), json!({ "clint": "c" })] {
        assert_eq!(server.call("POST", "bans", Some(body)).0, 400);
    }
}

/// A full journal refuses them, like those of clients.
fn messages_of_operators_need_storage(driver: &str) {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().to_str().unwrap();
    let args = ["--persistence-dir", folder, "--set", "max-persistence-bytes = 0"];
    let server = AdminBroker::start_by(|arguments| {
        Broker::start_with_data(driver, &[arguments, &args].concat())
    });
    let publish = |qos, retain, payload| {
        let body = json!({ "topic": "a", "payload": payload, "qos": qos, "retain": retain });
        server.call("POST", "publish", Some(body)).0
    };
    for (qos, retain, status) in [(0, true, 503), (1, false, 503), (2, true, 503), (0, false, 200)]
    {
        assert_eq!(publish(qos, retain, "x"), status, "QoS {qos}, retain {retain}");
    }
    assert_eq!(server.call("DELETE", "retained?topic=a", None).0, 200, "a deletion makes room");
}

fn retained_messages_are_browsed_and_changed(driver: &str) {
    let server = AdminBroker::start(driver);
    let mut client = Client::new(&server.broker, "c");
    for n in 0..5 {
        client.retain(&format!("kept/{n}"), "x");
    }
    client.subscribe("own/+", QoS::AtLeastOnce);
    let body = json!({ "topic": "own/a", "payload": "é", "qos": 1, "retain": true });
    assert_eq!(
        server.call("POST", "publish", Some(body)),
        (200, json!({ "has_subscribers": true }))
    );
    client.expect_message("own/a", "é");
    let found = server.get("retained?filter=own/%2B");
    let message = &found["messages"][0];
    assert_eq!((&message["topic"], &message["payload"]), (&json!("own/a"), &json!("é")));
    assert_eq!((&message["bytes"], &found["next"]), (&json!(2), &Value::Null));
    let first = server.get("retained?filter=kept/%23&limit=3");
    assert_eq!(
        (first["messages"].as_array().unwrap().len(), &first["next"]),
        (3, &json!("kept/2"))
    );
    // The pages before may change.
    assert_eq!(server.call("DELETE", "retained?topic=kept/1", None).0, 200);
    assert_eq!(server.call("DELETE", "retained?topic=kept/2", None).0, 200);
    let rest = server.get("retained?filter=kept/%23&limit=3&after=kept/2");
    let topics: Vec<_> =
        rest["messages"].as_array().unwrap().iter().map(|message| &message["topic"]).collect();
    assert_eq!(topics, [&json!("kept/3"), &json!("kept/4")]);
    assert_eq!((rest["messages"].as_array().unwrap().len(), &rest["next"]), (2, &Value::Null));
    assert_eq!(server.call("DELETE", "retained?topic=kept/3", None).0, 200);
    assert_eq!(server.get("retained?filter=kept/%23")["messages"].as_array().unwrap().len(), 2);
    for body in
        [json!({ "topic": "a/#" }), json!({ "topic": "$SYS/a" }), json!({ "topic": "a", "qos": 3 })]
    {
        assert_eq!(server.call("POST", "publish", Some(body)).0, 400);
    }
    assert_eq!(server.call("GET", "retained?filter=a%23", None).0, 400);
}

fn a_client_and_a_topic_are_traced(driver: &str) {
    let server = AdminBroker::start(driver);
    let options = |body: Value| {
        let (status, trace) = server.call("POST", "traces", Some(body));
        assert_eq!(status, 200, "{trace}");
        trace["id"].as_u64().unwrap()
    };
    let client = options(json!({ "client": "reader", "seconds": 60 }));
    let topics = options(json!({ "filter": "t/+", "seconds": 60 }));
    let mut reader = Client::new(&server.broker, "reader");
    reader.subscribe("#", QoS::AtMostOnce);
    let mut writer = Client::new(&server.broker, "writer");
    writer.publish("t/a", "one");
    writer.publish("u", "two");
    reader.expect_message("t/a", "one");
    reader.expect_message("u", "two");
    let records = |id: u64| -> Vec<String> {
        let found = server.get(&format!("traces?id={id}"));
        let records = found["traces"][0]["records"].as_array().unwrap().clone();
        let of = |record: &Value| {
            format!("{} {} {}", record["event"], record["client"], record["message"]["topic"])
        };
        records.iter().map(|record| of(record).replace('"', "")).collect()
    };
    assert_eq!(records(client), ["connected reader null", "sent reader t/a", "sent reader u"]);
    assert_eq!(records(topics), ["received writer t/a", "sent reader t/a"]);
    assert_eq!(server.get("traces")["traces"].as_array().unwrap().len(), 2);
    assert_eq!(server.call("DELETE", &format!("traces?id={client}"), None).0, 200);
    assert_eq!(server.call("GET", &format!("traces?id={client}"), None).0, 404);
    assert_eq!(server.call("POST", "traces", Some(json!({ "client": "c", "seconds": 0 }))).0, 400);
}

fn bridges_are_listed(driver: &str) {
    let (remote, config) = (Broker::start(driver), tempfile::NamedTempFile::new().unwrap());
    let bridge = |name: &str, address: SocketAddr| {
        format!(
            "[[bridge]]\nname = \"{name}\"\naddress = \"mqtt://{address}\"\nremote-client-id = \"{name}\"\n\
             topic = [{{ pattern = \"a/#\", qos = 1 }}]\n"
        )
    };
    // Nothing listens on an address whose listener was dropped.
    let unused_address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = bridge("down", unused_address) + &bridge("up", remote.address);
    fs::write(config.path(), text).unwrap();
    let server = AdminBroker::start_with(driver, &["--config", config.path().to_str().unwrap()]);
    let (down, up) = eventually("the states of the bridges", || {
        let found = server.get("bridges");
        let [down, up] = &found["bridges"].as_array().unwrap()[..] else { return None };
        let is_stable = up["connected"] == true && down["error"].is_string();
        is_stable.then(|| (down.clone(), up.clone()))
    });
    assert_eq!((&up["name"], &up["sent_total"]), (&json!("up"), &json!(0)));
    assert!(up["remote"].as_str().unwrap().contains(&remote.address.to_string()), "{up}");
    assert_eq!((&down["name"], &down["connected"]), (&json!("down"), &json!(false)));
    assert!(down["attempts"].as_u64() > Some(0) && down["remote"].is_null(), "{down}");
    let mut remote_client = Client::new(&remote, "there");
    remote_client.subscribe("a/x", QoS::AtMostOnce);
    Client::new(&server.broker, "here").publish("a/x", "over");
    remote_client.expect_message("a/x", "over");
    eventually("the count", || {
        (server.get("bridges")["bridges"][1]["sent_total"] == 1).then_some(())
    });
    assert_eq!(server.get("client?client=$bridge/up")["filters"], json!(["a/#"]));
}

fn the_nodes_of_a_cluster_are_listed(driver: &str) {
    let Some(nats) = NatsServer::start("") else { return };
    let (url, data) = (nats.url(), tempfile::tempdir().unwrap());
    let start = |name: &str, args: &[&str]| {
        let stored = data.path().join(name);
        let arguments = ["--node-name", name, "--cluster", &url, "--cluster-timeout", "15s"];
        let persistence_args =
            ["--persistence-dir", stored.to_str().unwrap(), "--cluster-keep-sessions"];
        let all = [&arguments[..], &persistence_args, args].concat();
        Broker::start_at_with(driver, (unique_loopback(), 0).into(), &all)
    };
    let server = AdminBroker::start_by(|admin| start("a", admin));
    let other = start("b", &[]);
    let found = eventually("the nodes and their leases", || {
        let found = server.get("cluster");
        let is_connected = found["nodes"][0]["connected"] == true;
        let leases = found["kept"]["leases"].as_array()?.len();
        (is_connected && leases == 2 && found["kept"]["owned"] == true).then_some(found)
    });
    assert!(found["nats"].as_str().unwrap().contains(&url["nats://".len()..]), "{found}");
    assert_eq!((&found["nodes"][0]["name"], &found["nodes"][1]), (&json!("b"), &Value::Null));
    for lease in found["kept"]["leases"].as_array().unwrap() {
        assert_eq!(lease["journal"], lease["holder"], "{found}");
    }
    let client = found["nodes"][0]["client"].as_str().unwrap();
    assert!(client.starts_with("$cluster/b."), "{client}");
    let mut remote_client = Client::new(&other, "there");
    remote_client.subscribe("t", QoS::AtMostOnce);
    let filters = server.get(&format!("client?client={client}"))["filters"].clone();
    assert!(filters.as_array().unwrap().contains(&json!("t")), "{filters}");
    Client::new(&server.broker, "here").publish("t", "over");
    remote_client.expect_message("t", "over");
    let metrics =
        || request(server.admin, "GET", "/metrics", "", "").1.as_str().unwrap().to_owned();
    let is_shown = |line: &str| metrics().lines().any(|other| other == line);
    for line in [
        "mqtt_cluster_nats_connected 1",
        "mqtt_cluster_nodes 1",
        "mqtt_cluster_owns_sessions 1",
        "mqtt_cluster_journal_lag_bytes 0",
        "mqtt_cluster_sessions_adopted_total 0",
        "mqtt_cluster_sessions_moved_total 0",
        "mqtt_cluster_sessions_beyond_limit_total 0",
        "mqtt_cluster_lag_bytes{node=\"b\"} 0",
    ] {
        eventually(line, || is_shown(line).then_some(()));
    }
    for name in ["mqtt_cluster_bytes_sent_total", "mqtt_cluster_bytes_received_total"] {
        let (metrics, start) = (metrics(), format!("{name}{{node=\"b\"}} "));
        let value = metrics.lines().find_map(|line| line.strip_prefix(&start)?.parse::<u64>().ok());
        assert!(value > Some(0), "{metrics}");
    }
    other.crashes();
    eventually("the node is gone", || is_shown("mqtt_cluster_nodes 0").then_some(()));
    let found = server.get("cluster");
    let [node] = &found["nodes"].as_array().unwrap()[..] else { panic!("{found}") };
    assert!(node["connected"] == false && node["error"].is_string(), "{found}");
}
