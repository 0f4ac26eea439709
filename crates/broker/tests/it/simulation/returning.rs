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
use crate::simulation::subscriber::{ask_for, look_at};
use crate::simulation::wire::{Lost, Wire, until};
use crate::simulation::{Shared, publisher};

/// The client's persistent state.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    inbox: Inbox,
    heard: u64,
    /// How often the client has subscribed.
    times: usize,
    asked: Option<Asked>,
    /// The numbers of the messages received, by topic, and whether they were retained.
    got: BTreeMap<String, Vec<(usize, bool)>>,
}

/// The messages to expect from a subscription.
#[derive(Clone)]
struct Asked {
    /// Messages acknowledged before the SUBSCRIBE.
    answered: ByTopics,
    /// Messages sent before the SUBACK.
    sent: ByTopics,
}

impl Memory {
    pub(crate) fn heard(&self) -> u64 {
        self.heard
    }

    fn note(&mut self, publish: &Publish<'_>) {
        // Deleted messages are checked by other tests.
        if !publish.payload.is_empty() {
            let number = std::str::from_utf8(publish.payload).unwrap().parse().unwrap();
            let of = self.got.entry(publish.topic.to_owned()).or_default();
            of.push((number, publish.retain));
        }
    }

    /// Whether the client has received everything: the retained message of each topic, and all later messages. Messages
    /// that expire do not count.
    pub(crate) fn has_all(&self) -> bool {
        let Some(Asked { answered, sent }) = &self.asked else { return false };
        let has_all = |topic: &String| {
            let (publisher, all) = of_topic(topic);
            let got = self.got.get(topic).map_or(&[][..], Vec::as_slice);
            let has = |number: usize, retained: bool| {
                let comes = |own: &(usize, bool)| own.0 == number && (own.1 || !retained);
                deletes(publisher, number) || got.iter().any(comes)
            };
            let has_later = |first: usize| all.clone().all(|n| n < first || has(n, false));
            let last = answered[topic].last();
            let mut may = sent[topic].iter().filter(|number| Some(*number) >= last);
            let expires = all.clone().any(|number| expiry(number).is_some());
            let was_nothing = last.is_none() && has_later(0);
            expires || was_nothing || may.any(|own| has(*own, true) && has_later(own + 1))
        };
        sent.keys().all(has_all)
    }

    /// Checks that no QoS 2 message that was published once arrived twice, and that no retained message arrived without a
    /// subscription.
    fn look(&self) {
        for (topic, got) in &self.got {
            for own in got.iter().filter(|own| qos(own.0) == QoS::ExactlyOnce) {
                let times = got.iter().filter(|other| *other == own).count();
                let most = if own.1 { self.times } else { 1 };
                assert!(times <= most, "{own:?} of {topic} arrived {times} times, not {most}");
            }
        }
    }
}

/// Subscribes, and receives until it has everything.
pub(crate) async fn run(
    net: Net,
    shared: Rc<Shared>,
    publishers: Publishers,
    memory: Rc<RefCell<Memory>>,
) {
    net.sleep(Duration::from_millis(net.draw(100))).await;
    let mut breaks = 4;
    let mut done = pin!(async {
        until(|| memory.borrow().has_all() && memory.borrow().inbox.is_at_rest()).await;
        net.sleep(Duration::from_secs(1)).await;
    });
    loop {
        let mut wire = Wire::connect(&net, "returning").await;
        memory.borrow_mut().heard += 1;
        let is_known = memory.borrow().asked.is_some();
        assert!(wire.is_present || !is_known, "the session is lost");
        let fails = shared.breaks.get() && breaks > 0 && net.draw(2) == 0;
        let steps = if fails { net.draw(12) } else { u64::MAX };
        breaks -= u32::from(fails);
        if receive(&mut wire, &publishers, &memory, steps, done.as_mut()).await.is_ok() {
            return memory.borrow().look();
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
    memory: &RefCell<Memory>,
    steps: u64,
    mut done: Pin<&mut impl Future<Output = ()>>,
) -> Result<(), Lost> {
    let mut answered = None;
    if memory.borrow().asked.is_none() {
        memory.borrow_mut().times += 1;
        answered = Some(by_topics(publishers, publisher::Memory::is_answered));
        ask_for(wire, &["kept/#"]).await?;
    }
    for _ in 0..steps {
        let came = match select(done.as_mut(), wire.next()).await {
            Either::Left(()) => return Ok(()),
            Either::Right(came) => came?,
        };
        memory.borrow_mut().heard += 1;
        let packet = match came.packet() {
            Packet::SubAck(ack) => {
                look_at(&ack)?;
                let sent = by_topics(publishers, |own, number| number < own.next());
                let answered = answered.take().expect("subscribed before");
                memory.borrow_mut().asked = Some(Asked { answered, sent });
                continue;
            }
            // The broker's disk is slow.
            Packet::Disconnect(why) if why.reason == Reason::SERVER_BUSY => {
                return Err(Lost);
            }
            packet => packet,
        };
        let (new, answer) = memory.borrow_mut().inbox.take(packet);
        if let Some(publish) = new {
            memory.borrow_mut().note(&publish);
        }
        if let Some(answer) = answer {
            wire.say(&answer).await?;
        }
    }
    Err(Lost)
}
