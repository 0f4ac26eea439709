//! Gauges and counters in `/metrics`, and the dashboard that shows them.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use phalanx_mqtt::{Delivery, QoS};
use phalanx_testkit::mqtt::{Client, ConnectOptions};
use phalanx_testkit::{eventually, http};
use serde_json::Value;

use crate::broker::process::Broker;

crate::on_one_driver!(
    messages_and_connections_are_shown,
    metrics_are_documented,
    the_dashboard_shows_existing_metrics,
);

/// The answer to `/metrics`.
fn metrics(admin: SocketAddr) -> String {
    http::get(admin, "/metrics").text().to_owned()
}

/// The sum over all series of a metric whose labels contain `label`.
fn sum(admin: SocketAddr, name: &str, label: &str) -> u64 {
    let metrics_text = metrics(admin);
    let families =
        metrics_text.matches(&format!("# TYPE {} ", name.trim_end_matches("_total"))).count();
    assert_eq!(families, 1, "{name}: {metrics_text}");
    let series = metrics_text.lines().filter_map(|line| line.strip_prefix(name));
    let series = series.filter(|rest| rest.starts_with(['{', ' ']) && rest.contains(label));
    series.filter_map(|rest| rest.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

/// Waits for a sum.
fn becomes(admin: SocketAddr, name: &str, label: &str, expected: u64) {
    eventually(&format!("{name} is {expected}"), || {
        (sum(admin, name, label) == expected).then_some(())
    });
}

fn messages_and_connections_are_shown(driver: &str) {
    let arguments = ["--admin", "127.0.0.1:0", "--listen", "ws://127.0.0.1:0"];
    let broker = Broker::start_with(driver, &arguments);
    let admin = broker.admin();
    let listener = format!("{{listener=\"mqtt://{}\"}}", broker.address);
    // The broker has a second address, with its own series.
    let websocket = "listener=\"ws://127.0.0.1:";
    let mut offline = Client::connect_with(&broker, &ConnectOptions::persistent("away")).0;
    offline.subscribe("t", QoS::AtLeastOnce);
    let mut online = Client::new(&broker, "near");
    online.subscribe("t", QoS::AtLeastOnce);
    becomes(admin, "mqtt_listener_connections", &listener, 2);
    assert_eq!(sum(admin, "mqtt_listener_connections", websocket), 0);
    offline.disconnect();
    becomes(admin, "mqtt_listener_connections", &listener, 1);
    assert_eq!(sum(admin, "mqtt_listener_connections_accepted_total", &listener), 2);
    let mut writer = Client::new(&broker, "writer");
    (0..3).for_each(|_| _ = writer.publish("t", "12345"));
    becomes(admin, "mqtt_queued_messages", "", 3);
    assert!(sum(admin, "mqtt_queued_bytes", "") >= 3 * 5);
    // The client near does not acknowledge.
    becomes(admin, "mqtt_inflight_messages", "", 3);
    let received = sum(admin, "mqtt_listener_bytes_received_total", &listener);
    assert_eq!(received, sum(admin, "mqtt_bytes_received_total", ""));
    assert!(sum(admin, "mqtt_listener_bytes_sent_total", &listener) > 3 * 5);
    writer.publish_with("kept", "x", Delivery::AtMostOnce, true, &[]);
    becomes(admin, "mqtt_retained_messages", "", 1);
    assert!(sum(admin, "mqtt_retained_bytes", "") > 0);
    // Both sessions end, and their messages are dropped.
    drop(online);
    Client::connect_with(
        &broker,
        &ConnectOptions { clean: true, ..ConnectOptions::persistent("away") },
    )
    .0
    .disconnect();
    becomes(admin, "mqtt_queued_messages", "", 0);
    becomes(admin, "mqtt_queued_bytes", "", 0);
    becomes(admin, "mqtt_inflight_messages", "", 0);
}

fn metrics_are_documented(driver: &str) {
    let broker = Broker::start_with(driver, &["--admin", "127.0.0.1:0"]);
    let metrics_text = metrics(broker.admin());
    let page = include_str!("../../../../../../docs/broker/operating.md");
    let families = metrics_text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let families = families.filter_map(|line| line.split_whitespace().next());
    let mqtt: Vec<_> = families.filter(|name| name.starts_with("mqtt_")).collect();
    assert!(mqtt.len() >= 20, "{mqtt:?}");
    for name in mqtt {
        let is_named = [format!("`{name}`"), format!("`{name}_total`"), format!("`{name}_total{{")]
            .iter()
            .any(|text| page.contains(text));
        assert!(is_named, "{name} is not in docs/broker/operating.md");
    }
}

fn the_dashboard_shows_existing_metrics(driver: &str) {
    let broker = Broker::start_with(driver, &["--admin", "127.0.0.1:0"]);
    let metrics_text = metrics(broker.admin());
    let text = include_str!("../../../../../../packaging/grafana/phalanx-broker.json");
    let dashboard: Value = serde_json::from_str(text).unwrap();
    let mut names = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let words =
                target["expr"].as_str().unwrap().split(|c: char| !c.is_alphanumeric() && c != '_');
            let is_metric = |word: &&str| word.starts_with("mqtt_") || word.starts_with("phalanx_");
            names.extend(words.filter(is_metric));
        }
    }
    assert!(names.len() >= 20, "{names:?}");
    for name in names {
        let family = name.trim_end_matches("_total").trim_end_matches("_bucket");
        assert!(metrics_text.contains(&format!("# TYPE {family} ")), "{name} is not in /metrics");
    }
}
