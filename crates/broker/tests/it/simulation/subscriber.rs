//! A subscriber that follows the standard and checks the received messages at the end.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use phalanx::select;
use phalanx::sim::{Net, World};
use phalanx::task::Either;
use phalanx_mqtt::{
    Packet, PacketId, Properties, Property, Publish, QoS, Reason, SubAck, Subscribe,
    SubscribeOptions, SubscriptionBuffer, Unsubscribe,
};

use crate::simulation::inbox::Inbox;
use crate::simulation::wire::{Brokers, Lost, Wire, until};
use crate::simulation::{MESSAGES, PUBLISHERS, Shared, qos};

/// The client's persistent state.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    pub(crate) is_subscribed: bool,
    /// Set once the subscription has ended: the messages that may still arrive.
    pub(crate) left: Option<Vec<usize>>,
    inbox: Inbox,
    /// The messages received by topic: their numbers and QoS.
    got: BTreeMap<String, Vec<(usize, QoS)>>,
}

/// A client's subscription, and when it ends.
pub(crate) struct Errand {
    pub(crate) name: String,
    pub(crate) filter: &'static str,
    /// Unsubscribes after this many messages.
    pub(crate) leaves_after: usize,
    /// For each publisher, the number of the first message that must not arrive if the client unsubscribes now.
    pub(crate) from_now: Box<dyn Fn() -> Vec<usize>>,
    /// Called for each message, with its number and its expiry interval in seconds.
    pub(crate) comes: Box<dyn Fn(usize, Option<u32>)>,
    /// Whether the client need not wait any longer.
    pub(crate) is_done: Box<dyn Fn() -> bool>,
    /// Time to stay connected afterwards, to detect unexpected messages.
    pub(crate) lingers: Duration,
}

impl Errand {
    /// Stays subscribed to `from/+` until it has all messages.
    fn for_all(number: usize, memory: &Rc<RefCell<Memory>>) -> Self {
        let memory = memory.clone();
        Self {
            name: format!("subscriber {number}"),
            filter: "from/+",
            leaves_after: usize::MAX,
            from_now: Box::new(Vec::new),
            comes: Box::new(|_, _| ()),
            is_done: Box::new(move || {
                memory.borrow().has_all() && memory.borrow().inbox.is_at_rest()
            }),
            lingers: Duration::from_secs(1),
        }
    }
}

/// Adds subscribers for all messages, with their state; they check the received messages at the end.
pub(crate) fn enter(world: &mut World, shared: &Rc<Shared>, all: &[Rc<RefCell<Memory>>]) {
    all.iter().enumerate().for_each(|(number, memory)| enter_one(world, shared, number, memory));
}

/// Adds the subscriber with this number.
pub(crate) fn enter_one(
    world: &mut World,
    shared: &Rc<Shared>,
    number: usize,
    memory: &Rc<RefCell<Memory>>,
) {
    let errand = Errand::for_all(number, memory);
    let (net, shared, memory) = (world.net(), shared.clone(), memory.clone());
    world.client(async move {
        run(net, shared, errand, memory.clone()).await;
        memory.borrow().look();
    });
}

/// Subscribes, and receives until `errand` is done.
pub(crate) async fn run(net: Net, shared: Rc<Shared>, errand: Errand, memory: Rc<RefCell<Memory>>) {
    let name = &errand.name;
    let brokers = shared.subscribers_at.get();
    let mut breaks = brokers.breaks();
    let mut done = pin!(async {
        until(|| (errand.is_done)()).await;
        net.sleep(errand.lingers).await;
    });
    loop {
        let was_subscribed = memory.borrow().is_subscribed;
        let mut wire = brokers.connect(&net, name, was_subscribed).await;
        let fails = shared.breaks.get() && breaks > 0 && brokers.break_next(&net);
        let steps = if fails { net.draw(12) } else { u64::MAX };
        breaks -= u32::from(fails);
        assert!(wire.is_present || !was_subscribed, "{name}'s session is lost");
        if !was_subscribed && subscribe(&mut wire, brokers, errand.filter).await.is_err() {
            continue;
        }
        memory.borrow_mut().is_subscribed = true;
        memory.borrow_mut().inbox.heard += 1;
        if !was_subscribed {
            shared.absent.set(shared.absent.get() - 1);
        }
        if receive((&mut wire, brokers), &errand, &memory, steps, done.as_mut()).await.is_ok() {
            return;
        }
        if fails && net.draw(2) == 0 {
            wire.reset();
        }
        net.sleep(Duration::from_millis(net.draw(30))).await;
    }
}

/// Subscribes. Expects that no other packet arrives first.
async fn subscribe(wire: &mut Wire, brokers: Brokers, filter: &str) -> Result<(), Lost> {
    ask_for(wire, &[filter]).await?;
    let came = wire.next().await?;
    match came.packet() {
        Packet::SubAck(ack) => look_at(&ack),
        Packet::Disconnect(why) if wire.may_end(brokers, why.reason) => Err(Lost),
        other => panic!("{other:?}"),
    }
}

/// Sends a SUBSCRIBE with QoS 2.
pub(crate) async fn ask_for(wire: &mut Wire, filters: &[&str]) -> Result<(), Lost> {
    let mut wanted = SubscriptionBuffer::new();
    let options = SubscribeOptions { qos: QoS::ExactlyOnce, ..SubscribeOptions::default() };
    for filter in filters {
        wanted.push(filter, options).unwrap();
    }
    let (id, filters) = (PacketId::MIN, wanted.to_subscribe());
    wire.say(&Packet::Subscribe(Subscribe { id, filters, properties: Properties::NONE })).await
}

/// Subscribes with QoS 2, and waits for SUBACK, which is the next packet.
pub(crate) async fn subscribe_to(wire: &mut Wire, filters: &[&str]) {
    assert!(ask_for(wire, filters).await.is_ok());
    let Ok(came) = wire.next().await else { panic!("no SUBACK") };
    assert!(matches!(came.packet(), Packet::SubAck(_)), "{:?}", came.packet());
}

/// Checks a SUBACK.
pub(crate) fn look_at(ack: &SubAck<'_>) -> Result<(), Lost> {
    // The broker's disk is slow.
    if ack.reasons.contains(&Reason::IMPLEMENTATION_SPECIFIC_ERROR.0) {
        return Err(Lost);
    }
    assert!(ack.reasons.iter().all(|reason| *reason == Reason::GRANTED_QOS_2.0), "{ack:?}");
    Ok(())
}

/// Sends an UNSUBSCRIBE.
pub(crate) async fn unsubscribe(wire: &mut Wire, filter: &str) -> Result<(), Lost> {
    let mut gone = SubscriptionBuffer::new();
    gone.push(filter, SubscribeOptions::default()).unwrap();
    let (id, filters) = (PacketId::MIN, gone.to_unsubscribe());
    wire.say(&Packet::Unsubscribe(Unsubscribe { id, filters, properties: Properties::NONE })).await
}

/// Receives packets. `Ok` when the errand is done.
async fn receive(
    (wire, brokers): (&mut Wire, Brokers),
    errand: &Errand,
    memory: &RefCell<Memory>,
    steps: u64,
    mut done: Pin<&mut impl Future<Output = ()>>,
) -> Result<(), Lost> {
    let mut is_leaving = false;
    for _ in 0..steps {
        let stays = memory.borrow().left.is_none() && !is_leaving;
        if stays && memory.borrow().count() >= errand.leaves_after {
            is_leaving = true;
            unsubscribe(wire, errand.filter).await?;
        }
        let came = match select(done.as_mut(), wire.next()).await {
            Either::Left(()) => return Ok(()),
            Either::Right(came) => came?,
        };
        let packet = came.packet();
        memory.borrow_mut().inbox.heard += 1;
        if let Packet::Disconnect(why) = packet
            && wire.may_end(brokers, why.reason)
        {
            return Err(Lost);
        }
        if let Packet::UnsubAck(ack) = packet {
            // An earlier UNSUBSCRIBE may have succeeded although its answer was lost.
            let is_gone = [Reason::SUCCESS, Reason::NO_SUBSCRIPTION_EXISTED].map(|own| own.0);
            match *ack.reasons {
                [reason] if is_gone.contains(&reason) => {
                    memory.borrow_mut().left = Some((errand.from_now)());
                }
                // The broker's disk is slow.
                [reason] if reason == Reason::IMPLEMENTATION_SPECIFIC_ERROR.0 => return Err(Lost),
                _ => panic!("{ack:?}"),
            }
            continue;
        }
        let (new, answer) = memory.borrow_mut().inbox.take(packet);
        if let Some(publish) = new {
            assert_ne!(publish.delivery.qos(), QoS::AtMostOnce, "no message has another QoS");
            let number = memory.borrow_mut().note(&publish);
            (errand.comes)(number, expiry(&publish));
        }
        if let Some(answer) = answer {
            wire.say(&answer).await?;
        }
    }
    Err(Lost)
}

/// The message expiry interval in seconds, if set.
pub(crate) fn expiry(publish: &Publish<'_>) -> Option<u32> {
    publish.properties.iter().find_map(|own| match own {
        Property::MessageExpiry(seconds) => Some(seconds),
        _ => None,
    })
}

impl Memory {
    fn note(&mut self, publish: &Publish<'_>) -> usize {
        let number = std::str::from_utf8(publish.payload).unwrap().parse().unwrap();
        let of = self.got.entry(publish.topic.to_owned()).or_default();
        of.push((number, publish.delivery.qos()));
        number
    }

    /// The number of packets received.
    pub(crate) fn heard(&self) -> u64 {
        self.inbox.heard
    }

    /// The number of messages received.
    fn count(&self) -> usize {
        self.got.values().map(Vec::len).sum()
    }

    /// The messages received on a topic: their numbers and QoS.
    pub(crate) fn got(&self, topic: &str) -> &[(usize, QoS)] {
        self.got.get(topic).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn has_all(&self) -> bool {
        let distinct =
            |of: &[(usize, QoS)]| of.iter().map(|own| own.0).collect::<BTreeSet<_>>().len();
        (0..PUBLISHERS).all(|number| distinct(self.got(&format!("from/{number}"))) == MESSAGES)
    }

    /// Checks that each QoS 2 message arrived exactly once and each QoS 1 message at least once, in the order of its
    /// publisher.
    fn look(&self) {
        self.look_at_order(|_, _| true);
        for of in (0..PUBLISHERS).map(|number| self.got(&format!("from/{number}"))) {
            let exactly = of.iter().filter(|own| own.1 == QoS::ExactlyOnce);
            let expected = (0..MESSAGES).filter(|n| qos(*n) == QoS::ExactlyOnce);
            assert!(exactly.map(|own| own.0).eq(expected), "QoS 2: {of:?}");
        }
    }

    /// Checks that messages are in the order of their publisher, and that no QoS 2 message arrived twice. QoS 1 messages
    /// are checked only if `counts` accepts them.
    pub(crate) fn look_at_order(&self, counts: impl Fn(&str, usize) -> bool) {
        for (topic, of) in &self.got {
            let exactly = of.iter().filter(|own| own.1 == QoS::ExactlyOnce);
            assert!(exactly.map(|own| own.0).is_sorted_by(|a, b| a < b), "QoS 2: {of:?}");
            let mut first = Vec::new();
            for own in of.iter().filter(|own| own.1 == QoS::AtLeastOnce && counts(topic, own.0)) {
                if !first.contains(&own.0) {
                    first.push(own.0);
                }
            }
            assert!(first.is_sorted(), "QoS 1: {of:?}");
        }
    }
}
