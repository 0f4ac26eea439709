//! Wills while the broker loses power. A client connects repeatedly under one name, each time with a differently numbered
//! will, and disconnects in all possible ways. An observer records which wills are published.
//!
//! Expected: if a client has received CONNACK, its will is published when the connection breaks or the client asks for
//! it. It is not published before its delay or its session ends, and possibly not at all if the client returns earlier.
//! It is never published after a DISCONNECT was processed. Each life of the broker publishes it at most once.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use phalanx::sim::{self, Net, World};
use phalanx_mqtt::{Disconnect, Packet, Property, PropertyBuffer, QoS, Reason, Will};

use crate::simulation::Shared;
use crate::simulation::lives::{Cut, Everybody, lives};
use crate::simulation::retained::{Found, ask};
use crate::simulation::subscriber::{self, Errand};
use crate::simulation::wire::{Asking, Wire};

/// The number of connections of a client.
const TIMES: usize = 5;
const TOPIC: &str = "will";
/// The expiry interval of some wills in seconds: longer than a test runs.
const LASTS: u32 = 100_000;

/// The client's last packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Goodbye {
    /// No DISCONNECT, or one that may have been lost.
    #[default]
    None,
    /// DISCONNECT was processed, in this life of the broker.
    Taken,
    /// DISCONNECT was processed and stored on disk.
    Kept,
}

/// One connection of a client.
#[derive(Clone, Debug, Default)]
struct Visit {
    delay: Duration,
    expiry: u32,
    clean_start: bool,
    qos: QoS,
    /// Whether the will is retained, and its expiry interval in seconds.
    retain: bool,
    lasts: Option<u32>,
    is_let_in: bool,
    /// Whether the will must be published.
    must: bool,
    /// Whether the will had to be published before the client's next CONNECT.
    had_to: bool,
    goodbye: Goodbye,
    /// Whether the connection began in this life of the broker, and when it ended.
    is_new: bool,
    left: Option<Duration>,
    /// The number of lives of the broker that may have published the will.
    lives: usize,
}

/// The client's persistent state.
#[derive(Clone, Default)]
struct Memory {
    /// The number of packets received, and of CONNECT packets sent.
    heard: u64,
    visits: Vec<Visit>,
}

impl Memory {
    fn let_in(&self) -> usize {
        self.visits.iter().filter(|visit| visit.is_let_in).count()
    }

    /// Updates the expectations when the broker restarts.
    fn goes_on(&mut self) {
        for visit in &mut self.visits {
            (visit.is_new, visit.left) = (false, None);
            visit.lives += 1;
            if visit.goodbye == Goodbye::Taken {
                visit.goodbye = Goodbye::None;
            }
        }
    }

    /// Starts a connection. The CONNECT may cancel pending wills.
    fn asks(&mut self, net: &Net) -> (usize, Visit) {
        self.heard += 1;
        for visit in &mut self.visits {
            visit.had_to = std::mem::take(&mut visit.must);
            visit.must = visit.had_to && visit.delay.is_zero();
        }
        let visit = Visit {
            delay: Duration::from_secs([0, 0, 2, 5][net.draw(4) as usize]),
            expiry: [0, 1, 4, 1000][net.draw(4) as usize],
            clean_start: net.draw(4) == 0,
            qos: [QoS::AtLeastOnce, QoS::ExactlyOnce][net.draw(2) as usize],
            retain: net.draw(2) == 0,
            lasts: [None, Some(LASTS)][net.draw(2) as usize],
            is_new: true,
            lives: 1,
            ..Visit::default()
        };
        self.visits.push(visit.clone());
        (self.visits.len() - 1, visit)
    }

    fn is_let_in(&mut self, number: usize, is_present: bool) {
        self.heard += 1;
        (self.visits[number].is_let_in, self.visits[number].must) = (true, true);
        for visit in &mut self.visits[..number] {
            if visit.goodbye == Goodbye::Taken {
                visit.goodbye = Goodbye::Kept;
            }
        }
        // The last session had ended, so its will was published.
        if let Some(last) = self.visits[..number].last_mut().filter(|_| !is_present) {
            last.must |= last.had_to;
        }
    }

    /// Checks a published will.
    fn comes(&self, number: usize, lasts: Option<u32>, now: Duration) {
        let visit = &self.visits[number];
        assert_eq!(visit.goodbye, Goodbye::None, "the will {number} was published: {visit:?}");
        let is_last = number + 1 == self.visits.len();
        if is_last && visit.is_new && visit.is_let_in {
            let expiry = Duration::from_secs(visit.expiry.into());
            let earliest = visit.left.map(|left| left + visit.delay.min(expiry));
            assert!(
                earliest.is_some_and(|at| at <= now),
                "{number} has come at {now:?}: {visit:?}"
            );
            // The expiry interval starts when the will is published, not earlier.
            let least = LASTS - (now - earliest.unwrap_or(now)).as_secs() as u32 - 1;
            assert!(
                lasts.is_none_or(|own| own >= least),
                "the will {number} expires in {lasts:?}: {visit:?}"
            );
        }
        assert!(lasts.is_some() == visit.lasts.is_some() && lasts <= visit.lasts, "{lasts:?}");
    }
}

struct Clients {
    mortal: Rc<RefCell<Memory>>,
    watcher: Rc<RefCell<subscriber::Memory>>,
}

impl Clients {
    fn missing(&self) -> usize {
        let watcher = self.watcher.borrow();
        let has_come = |number| watcher.got(TOPIC).iter().any(|own| own.0 == number);
        let visits = &self.mortal.borrow().visits;
        visits.iter().enumerate().filter(|(n, visit)| visit.must && !has_come(*n)).count()
    }

    /// Checks that the message retained at the end is the last required will that arrived.
    fn look_at_retained(&self, found: Option<&Found>) {
        let (watcher, mortal) = (self.watcher.borrow(), self.mortal.borrow());
        let numbers = watcher.got(TOPIC).iter().map(|own| own.0);
        let came: Vec<_> = numbers.filter(|number| mortal.visits[*number].retain).collect();
        let Some(found) = found else {
            return assert!(came.is_empty(), "none of {came:?} is retained");
        };
        let last = came.iter().rposition(|own| *own == found.number);
        // An unacknowledged will arrives again, after others.
        let later =
            last.and_then(|last| came[last + 1..].iter().find(|own| !came[..last].contains(own)));
        assert!(last.is_some() && later.is_none(), "{found:?}, of {came:?}");
        let visit = &mortal.visits[found.number];
        assert!(found.qos == visit.qos && found.expires.is_some() == visit.lasts.is_some());
    }

    /// Checks that no will arrived too often. (A QoS 1 message may be retransmitted.)
    fn look(&self) {
        let watcher = self.watcher.borrow();
        for (number, visit) in self.mortal.borrow().visits.iter().enumerate() {
            let came = watcher.got(TOPIC).iter().filter(|own| own.0 == number).count();
            let is_counted = visit.qos == QoS::ExactlyOnce;
            assert!(
                !is_counted || came <= visit.lives,
                "{number} has come {came} times: {visit:?}"
            );
            assert!(
                visit.goodbye == Goodbye::None || came == 0,
                "the will {number} was published: {visit:?}"
            );
        }
    }
}

impl Everybody for Clients {
    type Moment = (Memory, subscriber::Memory);

    fn heard(&self) -> u64 {
        self.mortal.borrow().heard + self.watcher.borrow().heard()
    }

    fn are_through(&self) -> bool {
        self.mortal.borrow().let_in() >= TIMES && self.missing() == 0
    }

    fn moment(&self) -> Self::Moment {
        (self.mortal.borrow().clone(), self.watcher.borrow().clone())
    }
}

/// Connects and disconnects repeatedly.
async fn comes_and_goes(
    net: Net,
    shared: Rc<Shared>,
    memory: Rc<RefCell<Memory>>,
    is_over: Rc<Cell<bool>>,
) {
    while shared.absent.get() > 0 {
        net.sleep(Duration::from_millis(10)).await;
    }
    let mut before = None;
    while memory.borrow().let_in() < TIMES {
        pause(&net).await;
        let (number, visit) = memory.borrow_mut().asks(&net);
        let mut properties = PropertyBuffer::new();
        properties.push(Property::WillDelay(visit.delay.as_secs() as u32)).unwrap();
        let lasts = visit.lasts.map(Property::MessageExpiry);
        lasts.into_iter().for_each(|lasts| properties.push(lasts).unwrap());
        let payload = number.to_string();
        let (topic, payload, qos, retain) = (TOPIC, payload.as_bytes(), visit.qos, visit.retain);
        let will = Some(Will { topic, payload, qos, retain, properties: properties.get() });
        let Visit { expiry, clean_start, .. } = visit;
        let asking = Asking { name: "mortal", expiry, clean_start, will };
        let mut wire: Wire = match Wire::open(&net, asking).await {
            Ok((wire, Reason::SUCCESS)) => wire,
            // The broker's disk is slow.
            Err(_) | Ok((_, Reason::SERVER_UNAVAILABLE)) => continue,
            Ok((_, reason)) => panic!("the CONNECT is refused: {reason:?}"),
        };
        memory.borrow_mut().is_let_in(number, wire.is_present);
        // The new connection took over the session.
        drop(before.take());
        net.sleep(Duration::from_millis(net.draw(1000))).await;
        let leave = || memory.borrow_mut().visits[number].left = Some(net.now());
        match net.draw(8) {
            0 => {
                leave();
                wire.reset();
            }
            1..=3 if memory.borrow().let_in() < TIMES => before = Some(wire),
            4 | 5 => {
                memory.borrow_mut().visits[number].must = false;
                leave();
                let goodbye = Packet::Disconnect(Disconnect::because(Reason::SUCCESS));
                if wire.say(&goodbye).await.is_ok() && wire.is_closed().await {
                    memory.borrow_mut().visits[number].goodbye = Goodbye::Taken;
                }
            }
            6 => {
                leave();
                let reason = Reason::DISCONNECT_WITH_WILL;
                let _ = wire.say(&Packet::Disconnect(Disconnect::because(reason))).await;
            }
            _ => leave(),
        }
    }
    is_over.set(true);
}

/// A pause that is sometimes short and sometimes long.
async fn pause(net: &Net) {
    let most = [1, 20, 1000, 8000][net.draw(4) as usize];
    net.sleep(Duration::from_millis(net.draw(most))).await;
}

fn enter(world: &mut World, breaks: bool, known: &(Memory, subscriber::Memory)) -> Clients {
    let own = Rc::new(Shared::default());
    own.absent.set(usize::from(!known.1.is_subscribed));
    own.breaks.set(breaks);
    let (mortal, watcher) = known.clone();
    let (mortal, watcher) = (Rc::new(RefCell::new(mortal)), Rc::new(RefCell::new(watcher)));
    mortal.borrow_mut().goes_on();
    let clients = || Clients { mortal: mortal.clone(), watcher: watcher.clone() };
    let is_over = Rc::new(Cell::new(false));
    world.client(comes_and_goes(world.net(), own.clone(), mortal.clone(), is_over.clone()));
    let (net, of_mortal, all, look) = (world.net(), mortal.clone(), clients(), clients());
    let errand = Errand {
        name: "watcher".to_owned(),
        filter: TOPIC,
        leaves_after: usize::MAX,
        from_now: Box::new(Vec::new),
        comes: Box::new(move |number, lasts| of_mortal.borrow().comes(number, lasts, net.now())),
        is_done: Box::new(move || is_over.get() && all.missing() == 0),
        // Long enough for all required wills to be published.
        lingers: Duration::from_secs(20),
    };
    let run = subscriber::run(world.net(), own, errand, watcher.clone());
    let (net, name) = (world.net(), format!("heir {}", world.seed()));
    world.client(async move {
        run.await;
        look.look();
        for round in 0.. {
            let name = format!("{name} {round}");
            if let Ok(found) = ask(&net, (&name, TOPIC), &Cell::new(0)).await {
                return look.look_at_retained(found.get(TOPIC));
            }
        }
    });
    clients()
}

#[test]
fn wills_survive_crashes() {
    let (kept, came) = (Cell::new(0), Cell::new(0));
    sim::explore_each(60, |seed| {
        // Some power cuts come right after a CONNECT, others while wills are pending.
        let later = [Duration::from_millis(5), Duration::from_secs(5)][seed as usize % 2];
        let cut = Cut { heard: 20, later };
        let known = lives(seed, cut, Default::default(), enter, |_| ());
        let is_kept = |visit: &&Visit| visit.goodbye == Goodbye::Kept;
        kept.set(kept.get() + known.0.visits.iter().filter(is_kept).count());
        came.set(came.get() + known.1.got(TOPIC).len());
    });
    // The test reached the intended situations.
    let alone = std::env::var_os("PHALANX_SEED").is_some();
    assert!(alone || kept.get() > 0 && came.get() > 0, "{kept:?} {came:?}");
}
