//! A shared subscription while the broker loses power. One member of the group receives each acknowledged message, a QoS
//! 2 message exactly once. A member that has left receives none.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sim::{self, World};
use phalanx_mqtt::QoS;

use crate::simulation::power_cuts::{ClientSet, Cut, cloned_states, handles, run_lives};
use crate::simulation::subscriber::Task;
use crate::simulation::{MESSAGES, PUBLISHERS, Shared, publisher, qos, subscriber};

/// State shared by all clients.
#[derive(Clone)]
struct ClientStates {
    publishers: Vec<publisher::State>,
    members: Vec<subscriber::State>,
}

#[derive(Clone)]
struct Clients {
    publishers: Vec<Rc<RefCell<publisher::State>>>,
    members: Vec<Rc<RefCell<subscriber::State>>>,
}

impl ClientSet for Clients {
    type Snapshot = ClientStates;

    fn packets_received(&self) -> u64 {
        let of_publishers =
            self.publishers.iter().map(|publisher| publisher.borrow().packets_received());
        of_publishers
            .chain(self.members.iter().map(|member| member.borrow().packets_received()))
            .sum()
    }

    fn are_done(&self) -> bool {
        let all = (0..MESSAGES).collect::<BTreeSet<_>>();
        let have_all = |publisher| {
            let topic = format!("from/{publisher}");
            let mut missing = all.clone();
            for member in &self.members {
                missing.retain(|number| {
                    !member.borrow().messages(&topic).iter().any(|got| got.0 == *number)
                });
            }
            missing.is_empty()
        };
        self.publishers.iter().all(|publisher| publisher.borrow().is_done())
            && (0..PUBLISHERS).all(have_all)
    }

    fn snapshot(&self) -> ClientStates {
        ClientStates {
            publishers: cloned_states(&self.publishers),
            members: cloned_states(&self.members),
        }
    }
}

/// Checks that only one member received each message, except retransmitted QoS 1 messages.
fn check_shares(states: &ClientStates) {
    for (number, publisher) in states.publishers.iter().enumerate() {
        let topic = format!("from/{number}");
        for message in 0..MESSAGES {
            let times = |member: &subscriber::State| {
                member.messages(&topic).iter().filter(|received| received.0 == message).count()
            };
            let receivers = states.members.iter().filter(|member| times(member) > 0).count() as u32;
            let most = if qos(message) == QoS::ExactlyOnce { 1 } else { publisher.sent(message) };
            assert!((1..=most).contains(&receivers), "{receivers} received {message} of {topic}");
        }
        for member in &states.members {
            let from = member.still_expected.as_ref().map_or(usize::MAX, |first| first[number]);
            let unexpected = member.messages(&topic).iter().find(|received| received.0 >= from);
            assert!(
                unexpected.is_none(),
                "a member that left before {from} received {unexpected:?} of {topic}"
            );
        }
    }
    // A retransmitted message may go to another member, for which it is new and out of order.
    let once = |topic: &str, message| {
        let publisher: usize = topic.trim_start_matches("from/").parse().unwrap();
        states.publishers[publisher].sent(message) == 1
    };
    states.members.iter().for_each(|member| member.check_order(once));
}

fn add_clients(
    world: &mut World,
    breaks: bool,
    states: &ClientStates,
    unsubscribe_after: usize,
) -> Clients {
    let own = Rc::new(Shared::default());
    own.absent.set(states.members.iter().filter(|member| !member.is_subscribed).count());
    own.breaks.set(breaks);
    let (publishers, members) = (handles(&states.publishers), handles(&states.members));
    let clients = Clients { publishers, members };
    for (number, state) in clients.members.iter().enumerate() {
        let publishers = clients.publishers.clone();
        let all = clients.clone();
        let task = Task {
            name: format!("member {number}"),
            filter: "$share/group/from/+",
            // The first member does not leave.
            unsubscribe_after: if number == 1 { unsubscribe_after } else { usize::MAX },
            unexpected_from: Box::new(move || {
                publishers.iter().map(|publisher| publisher.borrow().next()).collect()
            }),
            on_message: Box::new(|_, _| ()),
            is_done: Box::new(move || all.are_done()),
            linger_time: Duration::from_secs(3),
        };
        let (net, own, all) = (world.net(), own.clone(), clients.clone());
        let run = subscriber::run(net, own, task, state.clone());
        world.client(async move {
            run.await;
            check_shares(&all.snapshot());
        });
    }
    publisher::add_all(world, &own, publisher::numbered_message, &clients.publishers);
    clients
}

#[test]
fn a_group_receives_each_message_once_over_crashes() {
    let (left, both) = (Cell::new(0), Cell::new(0));
    sim::explore_each(20, |seed| {
        let states = ClientStates {
            publishers: vec![Default::default(); PUBLISHERS],
            members: vec![Default::default(); 2 + seed as usize % 2],
        };
        let add_clients = |world: &mut World, breaks, states: &ClientStates| {
            add_clients(world, breaks, states, seed as usize % 8)
        };
        let states = run_lives(seed, Cut::WHILE_PUBLISHING, states, add_clients, |_| ());
        left.set(left.get() + usize::from(states.members[1].still_expected.is_some()));
        let have_some =
            states.members.iter().filter(|member| !member.messages("from/0").is_empty());
        both.set(both.get() + usize::from(have_some.count() > 1));
    });
    // The test reached the intended situations.
    let alone = std::env::var_os("PHALANX_SEED").is_some();
    assert!(alone || left.get() > 0 && both.get() > 0, "{left:?} {both:?}");
}
