//! Tests of the table, without a broker.

use std::sync::Arc;
use std::time::Duration;

use phalanx_mqtt::{Delivery, Property, PropertyBuffer, Publish, SubscribeOptions};

use super::Router;
use crate::access::{self, Covered, Identity, Policy};
use crate::config::{Config, Limits};
use crate::content::parse::{PacketFilter, ParsedSubscription, parse};
use crate::durable::Wal;
use crate::durable::recovery::RecoveredRoutes;
use crate::events::EventLog;
use crate::events::drops::Drops;
use crate::model::client_key::ClientKey;
use crate::model::delivery::DeliveryBatch;
use crate::model::message::Message;
use crate::requests::{Subscriber, SubscriptionRequest};

/// A table with one partition of sessions.
struct Table {
    router: Router,
    policy: Arc<Policy>,
    drops: Drops,
}

impl Table {
    fn new(limits: &Limits, restored: RecoveredRoutes) -> Self {
        let policy = access::open(&Config::new()).unwrap().load_full();
        let drops = Drops::new(EventLog::default());
        let context = (&*policy, drops.clone(), None);
        Self { router: Router::new(limits, Wal::default(), restored, context), policy, drops }
    }

    /// Publishes messages. Returns the slots of the receivers, by message.
    fn publish(&mut self, messages: &[Arc<Message>]) -> Vec<Vec<u32>> {
        let mut batches = [DeliveryBatch::default()];
        let at = (&*self.policy, Duration::ZERO);
        self.router.publish_own(messages, &mut batches, at);
        let of = |message: &Arc<Message>| {
            let all = batches[0].deliveries.iter();
            let own = |n: u32| Arc::ptr_eq(&batches[0].messages[n as usize], message);
            all.filter(|one| own(one.message)).map(|one| one.client.slot).collect()
        };
        messages.iter().map(of).collect()
    }
}

fn key(slot: u32) -> ClientKey {
    ClientKey { partition: 0, slot, generation: 0 }
}

fn client(slot: u32) -> Subscriber {
    let identity = Identity { user: None, client: format!("client {slot}").into() };
    Subscriber { key: key(slot), durable_id: 0, identity, adoptions: None }
}

fn request(text: &str) -> SubscriptionRequest {
    let ParsedSubscription { key, content } = parse(text, PacketFilter::default()).unwrap();
    let (options, identifier, covered) = (SubscribeOptions::default(), None, Covered::UNKNOWN);
    SubscriptionRequest { key, content, options, identifier, covered }
}

fn message(topic: &str, retain: bool, properties: &[Property<'_>]) -> Arc<Message> {
    let mut buffer = PropertyBuffer::new();
    properties.iter().for_each(|own| buffer.push(*own).unwrap());
    let (delivery, properties) = (Delivery::AtMostOnce, buffer.get());
    let publish =
        Publish { topic, payload: b"x", delivery, retain, duplicate: false, properties };
    Arc::new(Message::of(&publish, topic, (key(9), 0), Duration::ZERO))
}

#[test]
fn a_client_that_subscribes_is_connected() {
    // Both sessions were stored, and the first one without a shared subscription.
    let clients =
        vec![(client(1), vec![request("other")]), (client(2), vec![request("$share/g/t")])];
    let mut table =
        Table::new(&Limits::default(), RecoveredRoutes { clients, ..Default::default() });
    table.router.subscribe(client(1), vec![request("$share/g/t")]);
    for _ in 0..4 {
        assert_eq!(table.publish(&[message("t", false, &[])]), [[1]]);
    }
}
