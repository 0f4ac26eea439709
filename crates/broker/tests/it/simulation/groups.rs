//! A shared subscription while the broker loses power. One member of the group receives each acknowledged message, a QoS
//! 2 message exactly once. A member that has left receives none.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sim::{self, World};
use phalanx_mqtt::QoS;

use crate::simulation::lives::{Cut, Everybody, copied, handles, lives};
use crate::simulation::subscriber::Errand;
use crate::simulation::{MESSAGES, PUBLISHERS, Shared, publisher, qos, subscriber};

/// State shared by all clients.
#[derive(Clone)]
struct Known {
    publishers: Vec<publisher::Memory>,
    members: Vec<subscriber::Memory>,
}

#[derive(Clone)]
struct Clients {
    publishers: Vec<Rc<RefCell<publisher::Memory>>>,
    members: Vec<Rc<RefCell<subscriber::Memory>>>,
}

impl Everybody for Clients {
    type Moment = Known;

    fn heard(&self) -> u64 {
        let of_publishers = self.publishers.iter().map(|own| own.borrow().heard());
        of_publishers.chain(self.members.iter().map(|own| own.borrow().heard())).sum()
    }

    fn are_through(&self) -> bool {
        let all = (0..MESSAGES).collect::<BTreeSet<_>>();
        let have_all = |publisher| {
            let topic = format!("from/{publisher}");
            let mut missing = all.clone();
            for member in &self.members {
                missing.retain(|own| !member.borrow().got(&topic).iter().any(|got| got.0 == *own));
            }
            missing.is_empty()
        };
        self.publishers.iter().all(|own| own.borrow().is_through()) && (0..PUBLISHERS).all(have_all)
    }

    fn moment(&self) -> Known {
        Known { publishers: copied(&self.publishers), members: copied(&self.members) }
    }
}

/// Checks that only one member received each message, except retransmitted QoS 1 messages.
fn look(known: &Known) {
    for (number, publisher) in known.publishers.iter().enumerate() {
        let topic = format!("from/{number}");
        for message in 0..MESSAGES {
            let times = |member: &subscriber::Memory| {
                member.got(&topic).iter().filter(|own| own.0 == message).count()
            };
            let who = known.members.iter().filter(|member| times(member) > 0).count() as u32;
            let most = if qos(message) == QoS::ExactlyOnce { 1 } else { publisher.sent(message) };
            assert!((1..=most).contains(&who), "{who} received {message} of {topic}");
        }
        for member in &known.members {
            let from = member.left.as_ref().map_or(usize::MAX, |left| left[number]);
            let late = member.got(&topic).iter().find(|own| own.0 >= from);
            assert!(
                late.is_none(),
                "a member that left before {from} received {late:?} of {topic}"
            );
        }
    }
    // A retransmitted message may go to another member, for which it is new and out of order.
    let once = |topic: &str, message| {
        let publisher: usize = topic.trim_start_matches("from/").parse().unwrap();
        known.publishers[publisher].sent(message) == 1
    };
    known.members.iter().for_each(|member| member.look_at_order(once));
}

fn enter(world: &mut World, breaks: bool, known: &Known, leaves_after: usize) -> Clients {
    let own = Rc::new(Shared::default());
    own.absent.set(known.members.iter().filter(|own| !own.is_subscribed).count());
    own.breaks.set(breaks);
    let (publishers, members) = (handles(&known.publishers), handles(&known.members));
    let clients = Clients { publishers, members };
    for (number, memory) in clients.members.iter().enumerate() {
        let publishers = clients.publishers.clone();
        let all = clients.clone();
        let errand = Errand {
            name: format!("member {number}"),
            filter: "$share/group/from/+",
            // The first member does not leave.
            leaves_after: if number == 1 { leaves_after } else { usize::MAX },
            from_now: Box::new(move || publishers.iter().map(|own| own.borrow().next()).collect()),
            comes: Box::new(|_, _| ()),
            is_done: Box::new(move || all.are_through()),
            lingers: Duration::from_secs(3),
        };
        let (net, own, all) = (world.net(), own.clone(), clients.clone());
        let run = subscriber::run(net, own, errand, memory.clone());
        world.client(async move {
            run.await;
            look(&all.moment());
        });
    }
    publisher::enter(world, &own, publisher::number, &clients.publishers);
    clients
}

#[test]
fn a_group_receives_each_message_once_over_crashes() {
    let (left, both) = (Cell::new(0), Cell::new(0));
    sim::explore_each(20, |seed| {
        let known = Known {
            publishers: vec![Default::default(); PUBLISHERS],
            members: vec![Default::default(); 2 + seed as usize % 2],
        };
        let enter = |world: &mut World, breaks, known: &Known| {
            enter(world, breaks, known, seed as usize % 8)
        };
        let known = lives(seed, Cut::MIDST, known, enter, |_| ());
        left.set(left.get() + usize::from(known.members[1].left.is_some()));
        let have_some = known.members.iter().filter(|own| !own.got("from/0").is_empty());
        both.set(both.get() + usize::from(have_some.count() > 1));
    });
    // The test reached the intended situations.
    let alone = std::env::var_os("PHALANX_SEED").is_some();
    assert!(alone || left.get() > 0 && both.get() > 0, "{left:?} {both:?}");
}
