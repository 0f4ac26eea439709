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
pub(crate) struct State {
    pub(crate) is_subscribed: bool,
    /// Set once the subscription has ended: the messages that may still arrive.
    pub(crate) still_expected: Option<Vec<usize>>,
    inbox: Inbox,
    /// The messages received by topic: their numbers and QoS.
    messages: BTreeMap<String, Vec<(usize, QoS)>>,
}

/// A client's subscription, and when it ends.
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) filter: &'static str,
    /// Unsubscribes after this many messages.
    pub(crate) unsubscribe_after: usize,
    /// For each publisher, the number of the first message that must not arrive if the client unsubscribes now.
    pub(crate) unexpected_from: Box<dyn Fn() -> Vec<usize>>,
    /// Called for each message, with its number and its expiry interval in seconds.
    pub(crate) on_message: Box<dyn Fn(usize, Option<u32>)>,
    /// Whether the client need not wait any longer.
    pub(crate) is_done: Box<dyn Fn() -> bool>,
    /// Time to stay connected afterwards, to detect unexpected messages.
    pub(crate) linger_time: Duration,
}

impl Task {
    /// Stays subscribed to `from/+` until it has all messages.
    fn for_all(number: usize, state: &Rc<RefCell<State>>) -> Self {
        let state = state.clone();
        Self {
            name: format!("subscriber {number}"),
            filter: "from/+",
            unsubscribe_after: usize::MAX,
            unexpected_from: Box::new(Vec::new),
            on_message: Box::new(|_, _| ()),
            is_done: Box::new(move || state.borrow().has_all() && state.borrow().inbox.is_idle()),
            linger_time: Duration::from_secs(1),
        }
    }
}

/// Adds subscribers for all messages, with their state; they check the received messages at the end.
pub(crate) fn add_all(world: &mut World, shared: &Rc<Shared>, all: &[Rc<RefCell<State>>]) {
    all.iter().enumerate().for_each(|(number, state)| add_one(world, shared, number, state));
}

/// Adds the subscriber with this number.
pub(crate) fn add_one(
    world: &mut World,
    shared: &Rc<Shared>,
    number: usize,
    state: &Rc<RefCell<State>>,
) {
    let task = Task::for_all(number, state);
    let (net, shared, state) = (world.net(), shared.clone(), state.clone());
    world.client(async move {
        run(net, shared, task, state.clone()).await;
        state.borrow().check();
    });
}

/// Subscribes, and receives until `task` is done.
pub(crate) async fn run(net: Net, shared: Rc<Shared>, task: Task, state: Rc<RefCell<State>>) {
    let name = &task.name;
    let brokers = shared.subscribers_at.get();
    let mut breaks = brokers.breaks();
    let mut done = pin!(async {
        until(|| (task.is_done)()).await;
        net.sleep(task.linger_time).await;
    });
    loop {
        let was_subscribed = state.borrow().is_subscribed;
        let mut wire = brokers.connect(&net, name, was_subscribed).await;
        let fails = shared.breaks.get() && breaks > 0 && brokers.break_next(&net);
        let steps = if fails { net.draw(12) } else { u64::MAX };
        breaks -= u32::from(fails);
        assert!(wire.is_present || !was_subscribed, "{name}'s session is lost");
        if !was_subscribed && subscribe(&mut wire, brokers, task.filter).await.is_err() {
            continue;
        }
        state.borrow_mut().is_subscribed = true;
        state.borrow_mut().inbox.packets_received += 1;
        if !was_subscribed {
            shared.absent.set(shared.absent.get() - 1);
        }
        if receive((&mut wire, brokers), &task, &state, steps, done.as_mut()).await.is_ok() {
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
    send_subscribe(wire, &[filter]).await?;
    let received = wire.next().await?;
    match received.packet() {
        Packet::SubAck(ack) => check_suback(&ack),
        Packet::Disconnect(disconnect) if wire.may_end(brokers, disconnect.reason) => Err(Lost),
        other => panic!("{other:?}"),
    }
}

/// Sends a SUBSCRIBE with QoS 2.
pub(crate) async fn send_subscribe(wire: &mut Wire, filters: &[&str]) -> Result<(), Lost> {
    let mut wanted = SubscriptionBuffer::new();
    let options = SubscribeOptions { qos: QoS::ExactlyOnce, ..SubscribeOptions::default() };
    for filter in filters {
        wanted.push(filter, options).unwrap();
    }
    let (id, filters) = (PacketId::MIN, wanted.to_subscribe());
    wire.send(&Packet::Subscribe(Subscribe { id, filters, properties: Properties::NONE })).await
}

/// Subscribes with QoS 2, and waits for SUBACK, which is the next packet.
pub(crate) async fn subscribe_to(wire: &mut Wire, filters: &[&str]) {
    assert!(send_subscribe(wire, filters).await.is_ok());
    let Ok(received) = wire.next().await else { panic!("no SUBACK") };
    assert!(matches!(received.packet(), Packet::SubAck(_)), "{:?}", received.packet());
}

/// Checks a SUBACK.
pub(crate) fn check_suback(ack: &SubAck<'_>) -> Result<(), Lost> {
    // The broker's disk is slow.
    if ack.reasons.contains(&Reason::IMPLEMENTATION_SPECIFIC_ERROR.0) {
        return Err(Lost);
    }
    assert!(ack.reasons.iter().all(|reason| *reason == Reason::GRANTED_QOS_2.0), "{ack:?}");
    Ok(())
}

/// Sends an UNSUBSCRIBE.
pub(crate) async fn unsubscribe(wire: &mut Wire, filter: &str) -> Result<(), Lost> {
    let mut filters = SubscriptionBuffer::new();
    filters.push(filter, SubscribeOptions::default()).unwrap();
    let (id, filters) = (PacketId::MIN, filters.to_unsubscribe());
    wire.send(&Packet::Unsubscribe(Unsubscribe { id, filters, properties: Properties::NONE })).await
}

/// Receives packets. `Ok` when the errand is done.
async fn receive(
    (wire, brokers): (&mut Wire, Brokers),
    task: &Task,
    state: &RefCell<State>,
    steps: u64,
    mut done: Pin<&mut impl Future<Output = ()>>,
) -> Result<(), Lost> {
    let mut is_leaving = false;
    for _ in 0..steps {
        let is_staying = state.borrow().still_expected.is_none() && !is_leaving;
        if is_staying && state.borrow().count() >= task.unsubscribe_after {
            is_leaving = true;
            unsubscribe(wire, task.filter).await?;
        }
        let received = match select(done.as_mut(), wire.next()).await {
            Either::Left(()) => return Ok(()),
            Either::Right(received) => received?,
        };
        let packet = received.packet();
        state.borrow_mut().inbox.packets_received += 1;
        if let Packet::Disconnect(disconnect) = packet
            && wire.may_end(brokers, disconnect.reason)
        {
            return Err(Lost);
        }
        if let Packet::UnsubAck(ack) = packet {
            // An earlier UNSUBSCRIBE may have succeeded although its answer was lost.
            let is_gone = [Reason::SUCCESS, Reason::NO_SUBSCRIPTION_EXISTED].map(|reason| reason.0);
            match *ack.reasons {
                [reason] if is_gone.contains(&reason) => {
                    state.borrow_mut().still_expected = Some((task.unexpected_from)());
                }
                // The broker's disk is slow.
                [reason] if reason == Reason::IMPLEMENTATION_SPECIFIC_ERROR.0 => return Err(Lost),
                _ => panic!("{ack:?}"),
            }
            continue;
        }
        let (new, answer) = state.borrow_mut().inbox.take(packet);
        if let Some(publish) = new {
            assert_ne!(publish.delivery.qos(), QoS::AtMostOnce, "no message has another QoS");
            let number = state.borrow_mut().record(&publish);
            (task.on_message)(number, expiry(&publish));
        }
        if let Some(answer) = answer {
            wire.send(&answer).await?;
        }
    }
    Err(Lost)
}

/// The message expiry interval in seconds, if set.
pub(crate) fn expiry(publish: &Publish<'_>) -> Option<u32> {
    publish.properties.iter().find_map(|property| match property {
        Property::MessageExpiry(seconds) => Some(seconds),
        _ => None,
    })
}

impl State {
    fn record(&mut self, publish: &Publish<'_>) -> usize {
        let number = std::str::from_utf8(publish.payload).unwrap().parse().unwrap();
        let of = self.messages.entry(publish.topic.to_owned()).or_default();
        of.push((number, publish.delivery.qos()));
        number
    }

    /// The number of packets received.
    pub(crate) fn packets_received(&self) -> u64 {
        self.inbox.packets_received
    }

    /// The number of messages received.
    fn count(&self) -> usize {
        self.messages.values().map(Vec::len).sum()
    }

    /// The messages received on a topic: their numbers and QoS.
    pub(crate) fn messages(&self, topic: &str) -> &[(usize, QoS)] {
        self.messages.get(topic).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn has_all(&self) -> bool {
        let distinct =
            |of: &[(usize, QoS)]| of.iter().map(|message| message.0).collect::<BTreeSet<_>>().len();
        (0..PUBLISHERS).all(|number| distinct(self.messages(&format!("from/{number}"))) == MESSAGES)
    }

    /// Checks that each QoS 2 message arrived exactly once and each QoS 1 message at least once, in the order of its
    /// publisher.
    fn check(&self) {
        self.check_order(|_, _| true);
        for of in (0..PUBLISHERS).map(|number| self.messages(&format!("from/{number}"))) {
            let exactly = of.iter().filter(|message| message.1 == QoS::ExactlyOnce);
            let expected = (0..MESSAGES).filter(|n| qos(*n) == QoS::ExactlyOnce);
            assert!(exactly.map(|message| message.0).eq(expected), "QoS 2: {of:?}");
        }
    }

    /// Checks that messages are in the order of their publisher, and that no QoS 2 message arrived twice. QoS 1 messages
    /// are checked only if `counts` accepts them.
    pub(crate) fn check_order(&self, counts: impl Fn(&str, usize) -> bool) {
        for (topic, of) in &self.messages {
            let exactly = of.iter().filter(|message| message.1 == QoS::ExactlyOnce);
            assert!(exactly.map(|message| message.0).is_sorted_by(|a, b| a < b), "QoS 2: {of:?}");
            let mut first = Vec::new();
            for message in of
                .iter()
                .filter(|message| message.1 == QoS::AtLeastOnce && counts(topic, message.0))
            {
                if !first.contains(&message.0) {
                    first.push(message.0);
                }
            }
            assert!(first.is_sorted(), "QoS 1: {of:?}");
        }
    }
}
