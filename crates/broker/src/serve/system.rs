//! Status topics below `$SYS/broker`, with the names that mosquitto uses.
//!
//! An operation on one processor publishes changed values at intervals. The messages are retained in memory
//! only.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use phalanx::shutdown::draining;
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{select, sleep};

use crate::context::Context;
use crate::counters::Counters;
use crate::events::drops::DropReason;
use crate::model::message::Message;
use crate::requests::Item;

/// Publishes the status immediately and then every `interval`, until shutdown.
pub(crate) async fn publish_status(context: Context, interval: Duration) {
    let mut system = System::new(now());
    let mut drained = pin!(draining());
    loop {
        let changed = system.take_changes(&context.counters, now());
        let messages = changed.map(|(topic, value)| Arc::new(Message::system(&topic, value)));
        // The broker was busy. Publish all values next time.
        if context.stages.routing.call(Item::System(messages.collect())).await.is_err() {
            system.published.clear();
        }
        if let Either::Right(()) = select(sleep(interval), drained.as_mut()).await {
            return;
        }
    }
}

/// The status as last published.
struct System {
    started: Duration,
    last_update: Duration,
    max_connected: i64,
    loads: Vec<Load>,
    published: HashMap<String, String>,
}

/// An exponentially decaying average per minute, like a system's load average.
struct Load {
    name: &'static str,
    count: Count,
    last: u64,
    averages: [f64; 3],
}

/// Reads a counter.
type Count = fn(&Counters) -> u64;

/// Names and time constants (in seconds) of the averages.
const WINDOWS: [(&str, f64); 3] = [("1min", 60.0), ("5min", 300.0), ("15min", 900.0)];

impl System {
    fn new(now: Duration) -> Self {
        let load = |(name, count)| Load { name, count, last: 0, averages: [0.0; 3] };
        let loads: [(&str, Count); 6] = [
            ("publish/received", |counters| counters.received.count()),
            ("publish/sent", |counters| counters.delivered.count()),
            ("publish/dropped", |counters| counters.drops.messages()),
            ("bytes/received", |counters| counters.bytes_received.count()),
            ("bytes/sent", |counters| counters.bytes_sent.count()),
            ("connections", |counters| counters.connections.count()),
        ];
        Self {
            started: now,
            last_update: now,
            max_connected: 0,
            loads: loads.map(load).into(),
            published: HashMap::new(),
        }
    }

    /// Topics and values that differ from those last published.
    fn take_changes(
        &mut self,
        counters: &Counters,
        now: Duration,
    ) -> impl Iterator<Item = (String, String)> {
        let mut all = self.values(counters, now);
        all.retain(|(topic, value)| self.published.get(topic) != Some(value));
        self.published.extend(all.iter().cloned());
        all.into_iter()
    }

    fn values(&mut self, counters: &Counters, now: Duration) -> Vec<(String, String)> {
        let sessions = counters.sessions.get();
        let connected = counters.connected.get().min(sessions);
        self.max_connected = self.max_connected.max(connected);
        let version = concat!("phalanx broker ", env!("CARGO_PKG_VERSION")).to_owned();
        let uptime = (now - self.started).as_secs();
        let mut all: Vec<_> = [
            ("version", version),
            ("uptime", format!("{uptime} seconds")),
            ("clients/connected", connected.to_string()),
            ("clients/disconnected", (sessions - connected).to_string()),
            ("clients/total", sessions.to_string()),
            ("clients/maximum", self.max_connected.to_string()),
            ("publish/messages/received", counters.received.count().to_string()),
            ("publish/messages/sent", counters.delivered.count().to_string()),
            ("publish/messages/dropped", counters.drops.messages().to_string()),
            ("bytes/received", counters.bytes_received.count().to_string()),
            ("bytes/sent", counters.bytes_sent.count().to_string()),
            ("subscriptions/count", counters.subscriptions.get().to_string()),
            ("retained messages/count", counters.retained.get().to_string()),
        ]
        .map(|(name, value)| (format!("$SYS/broker/{name}"), value))
        .into();
        for reason in DropReason::ALL {
            let topic = format!("$SYS/broker/dropped/{}", reason.label());
            all.push((topic, counters.drops.count(*reason).to_string()));
        }
        let elapsed = (now - self.last_update).as_secs_f64();
        self.last_update = now;
        for load in &mut self.loads {
            load.update((load.count)(counters), elapsed);
            for ((window, _), average) in WINDOWS.iter().zip(load.averages) {
                let topic = format!("$SYS/broker/load/{}/{window}", load.name);
                all.push((topic, format!("{average:.2}")));
            }
        }
        all
    }
}

impl Load {
    /// Updates the averages with the counter's value, `elapsed` seconds after the last update.
    fn update(&mut self, count: u64, elapsed: f64) {
        if elapsed <= 0.0 {
            return;
        }
        let rate = (count - self.last) as f64 * 60.0 / elapsed;
        self.last = count;
        for (average, (_, window)) in self.averages.iter_mut().zip(WINDOWS) {
            *average = rate + (*average - rate) * (-elapsed / window).exp();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::EventLog;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// The published values, with topics relative to `$SYS/broker`.
    fn publish(system: &mut System, counters: &Counters, now: Duration) -> HashMap<String, String> {
        let changed = system.take_changes(counters, now);
        changed.map(|(topic, value)| (topic.replace("$SYS/broker/", ""), value)).collect()
    }

    #[test]
    fn only_changed_values_are_published() {
        let counters = Counters::new(EventLog::default());
        let mut system = System::new(at(5));
        let first = publish(&mut system, &counters, at(5));
        assert_eq!(first["uptime"], "0 seconds");
        assert!(first["version"].starts_with("phalanx broker "));
        assert_eq!(first.len(), 13 + 6 * 3 + DropReason::ALL.len());
        assert!(publish(&mut system, &counters, at(5)).is_empty());
        counters.sessions.add(3);
        counters.connected.add(2);
        counters.received.add(600);
        let second = publish(&mut system, &counters, at(65));
        let of = |name: &str| second[name].as_str();
        assert_eq!((of("clients/connected"), of("clients/disconnected")), ("2", "1"));
        assert_eq!((of("clients/total"), of("uptime")), ("3", "60 seconds"));
        // After one minute at 600 per minute, the average is 1 - 1/e of the rate.
        assert_eq!(of("load/publish/received/1min"), "379.27");
        assert_eq!(of("load/publish/received/15min"), "38.70");
        assert!(!second.contains_key("version"));
        counters.connected.add(-1);
        assert_eq!(publish(&mut system, &counters, at(66))["clients/connected"], "1");
        assert_eq!(system.max_connected, 2);
        system.published.clear();
        assert_eq!(
            publish(&mut system, &counters, at(66)).len(),
            first.len(),
            "all values are published again"
        );
    }
}
