//! A client with a persistent session subscribes once, while messages are published. Despite crashes, it receives the
//! messages retained at that moment and all later messages.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use phalanx::select;
use phalanx::sim::Net;
use phalanx::task::Either;
use phalanx_mqtt::{Packet, Publish, QoS, Reason};

use crate::simulation::inbox::Inbox;
use crate::simulation::retained::{
    ByTopics, Publishers, by_topics, deletes, expiry, of_topic, qos,
};
use crate::simulation::subscriber::{check_suback, send_subscribe};
use crate::simulation::wire::{Lost, Wire, until};
use crate::simulation::{Shared, publisher};

/// The client's persistent state.
#[derive(Clone, Default)]
pub(crate) struct State {
    inbox: Inbox,
    packets_received: u64,
    /// How often the client has subscribed.
    subscribe_count: usize,
    expected: Option<Expected>,
    /// The numbers of the messages received, by topic, and whether they were retained.
    messages: BTreeMap<String, Vec<(usize, bool)>>,
}

/// The messages to expect from a subscription.
#[derive(Clone)]
struct Expected {
    /// Messages acknowledged before the SUBSCRIBE.
    acknowledged: ByTopics,
    /// Messages sent before the SUBACK.
    sent: ByTopics,
}

impl State {
    pub(crate) fn packets_received(&self) -> u64 {
        self.packets_received
    }

    fn record(&mut self, publish: &Publish<'_>) {
        // Deleted messages are checked by other tests.
        if !publish.payload.is_empty() {
            let number = std::str::from_utf8(publish.payload).unwrap().parse().unwrap();
            let of = self.messages.entry(publish.topic.to_owned()).or_default();
            of.push((number, publish.retain));
        }
    }

    /// Whether the client has received everything: the retained message of each topic, and all later messages. Messages
    /// that expire do not count.
    pub(crate) fn has_all(&self) -> bool {
        let Some(Expected { acknowledged, sent }) = &self.expected else { return false };
        let has_all = |topic: &String| {
            let (publisher, all) = of_topic(topic);
            let messages = self.messages.get(topic).map_or(&[][..], Vec::as_slice);
            let has = |number: usize, retained: bool| {
                let comes =
                    |received: &(usize, bool)| received.0 == number && (received.1 || !retained);
                deletes(publisher, number) || messages.iter().any(comes)
            };
            let has_later = |first: usize| all.clone().all(|n| n < first || has(n, false));
            let last = acknowledged[topic].last();
            let mut may = sent[topic].iter().filter(|number| Some(*number) >= last);
            let expires = all.clone().any(|number| expiry(number).is_some());
            let has_none = last.is_none() && has_later(0);
            expires || has_none || may.any(|number| has(*number, true) && has_later(number + 1))
        };
        sent.keys().all(has_all)
    }

    /// Checks that no QoS 2 message that was published once arrived twice, and that no retained message arrived without a
    /// subscription.
    fn check(&self) {
        for (topic, messages) in &self.messages {
            for message in messages.iter().filter(|message| qos(message.0) == QoS::ExactlyOnce) {
                let arrivals = messages.iter().filter(|other| *other == message).count();
                let most = if message.1 { self.subscribe_count } else { 1 };
                assert!(
                    arrivals <= most,
                    "{message:?} of {topic} arrived {arrivals} times, not {most}"
                );
            }
        }
    }
}

/// Subscribes, and receives until it has everything.
pub(crate) async fn run(
    net: Net,
    shared: Rc<Shared>,
    publishers: Publishers,
    state: Rc<RefCell<State>>,
) {
    net.sleep(Duration::from_millis(net.draw(100))).await;
    let mut breaks = 4;
    let mut done = pin!(async {
        until(|| state.borrow().has_all() && state.borrow().inbox.is_idle()).await;
        net.sleep(Duration::from_secs(1)).await;
    });
    loop {
        let mut wire = Wire::connect(&net, "returning").await;
        state.borrow_mut().packets_received += 1;
        let is_known = state.borrow().expected.is_some();
        assert!(wire.is_present || !is_known, "the session is lost");
        let fails = shared.breaks.get() && breaks > 0 && net.draw(2) == 0;
        let steps = if fails { net.draw(12) } else { u64::MAX };
        breaks -= u32::from(fails);
        if receive(&mut wire, &publishers, &state, steps, done.as_mut()).await.is_ok() {
            return state.borrow().check();
        }
        if fails && net.draw(2) == 0 {
            wire.reset();
        }
        net.sleep(Duration::from_millis(net.draw(30))).await;
    }
}

/// Receives packets, after sending SUBSCRIBE if that was not done yet. `Ok` when the client has received everything.
async fn receive(
    wire: &mut Wire,
    publishers: &Publishers,
    state: &RefCell<State>,
    steps: u64,
    mut done: Pin<&mut impl Future<Output = ()>>,
) -> Result<(), Lost> {
    let mut acknowledged = None;
    if state.borrow().expected.is_none() {
        state.borrow_mut().subscribe_count += 1;
        acknowledged = Some(by_topics(publishers, publisher::State::is_acknowledged));
        send_subscribe(wire, &["kept/#"]).await?;
    }
    for _ in 0..steps {
        let received = match select(done.as_mut(), wire.next()).await {
            Either::Left(()) => return Ok(()),
            Either::Right(received) => received?,
        };
        state.borrow_mut().packets_received += 1;
        let packet = match received.packet() {
            Packet::SubAck(ack) => {
                check_suback(&ack)?;
                let sent = by_topics(publishers, |publisher, number| number < publisher.next());
                let acknowledged = acknowledged.take().expect("subscribed before");
                state.borrow_mut().expected = Some(Expected { acknowledged, sent });
                continue;
            }
            // The broker's disk is slow.
            Packet::Disconnect(disconnect) if disconnect.reason == Reason::SERVER_BUSY => {
                return Err(Lost);
            }
            packet => packet,
        };
        let (new, answer) = state.borrow_mut().inbox.take(packet);
        if let Some(publish) = new {
            state.borrow_mut().record(&publish);
        }
        if let Some(answer) = answer {
            wire.send(&answer).await?;
        }
    }
    Err(Lost)
}
