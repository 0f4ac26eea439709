//! Wills while the broker loses its power. A client comes again and again under one name, each time with a will of a
//! number of its own, and leaves in all ways that there are; somebody watches which wills are published.
//!
//! What has to be so: a will whose client was told that it is let in comes, if the client goes without a word, or asks for
//! it; but not before its delay is over or the session, and maybe not at all if the client comes back before. It never
//! comes where the client has said goodbye and that was taken; and in each life of the broker it comes no more than once.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use phalanx::sim::{self, Net, World};
use phalanx_mqtt::{Disconnect, Packet, Property, PropertyBuffer, QoS, Reason, Will};

use crate::Shared;
use crate::lives::{Cut, Everybody, lives};
use crate::retained::{Found, ask};
use crate::subscriber::{self, Errand};
use crate::wire::{Asking, Wire};

/// So often a client is let in.
const TIMES: usize = 5;
const TOPIC: &str = "will";
/// Some wills are worth something for so many seconds: longer than a world lasts.
const LASTS: u32 = 100_000;

/// What a client has said in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Goodbye {
    /// Nothing, or what may have been lost.
    #[default]
    None,
    /// It was taken, in this life of the broker.
    Taken,
    /// And that is on the disk.
    Kept,
}

/// One time that a client has come.
#[derive(Clone, Debug, Default)]
struct Visit {
    delay: Duration,
    expiry: u32,
    clean_start: bool,
    qos: QoS,
    /// Whether its will is retained, and the seconds for which that is worth something.
    retain: bool,
    lasts: Option<u32>,
    is_let_in: bool,
    /// Its will is to come.
    must: bool,
    /// It was, before the client asked to be let in the next time.
    had_to: bool,
    goodbye: Goodbye,
    /// Whether it has begun in this life of the broker, and when it has ended then.
    is_new: bool,
    left: Option<Duration>,
    /// In so many lives of the broker its will may have been published.
    lives: usize,
}

/// What a client would keep on a disk of its own.
#[derive(Clone, Default)]
struct Memory {
    /// Packets that it has got, and times that it has asked to be let in.
    heard: u64,
    visits: Vec<Visit>,
}

impl Memory {
    fn let_in(&self) -> usize {
        self.visits.iter().filter(|visit| visit.is_let_in).count()
    }

    /// The broker begins anew.
    fn goes_on(&mut self) {
        for visit in &mut self.visits {
            (visit.is_new, visit.left) = (false, None);
            visit.lives += 1;
            if visit.goodbye == Goodbye::Taken {
                visit.goodbye = Goodbye::None;
            }
        }
    }

    /// Asks to be let in. Wills that wait may be taken back by that.
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
        // Its session was over, so its will has come.
        if let Some(last) = self.visits[..number].last_mut().filter(|_| !is_present) {
            last.must |= last.had_to;
        }
    }

    /// Looks at a will that has come.
    fn comes(&self, number: usize, lasts: Option<u32>, now: Duration) {
        let visit = &self.visits[number];
        assert_eq!(visit.goodbye, Goodbye::None, "the will {number} has come: {visit:?}");
        let is_last = number + 1 == self.visits.len();
        if is_last && visit.is_new && visit.is_let_in {
            let expiry = Duration::from_secs(visit.expiry.into());
            let earliest = visit.left.map(|left| left + visit.delay.min(expiry));
            assert!(
                earliest.is_some_and(|at| at <= now),
                "{number} has come at {now:?}: {visit:?}"
            );
            // From when it is published on, and that is not before.
            let least = LASTS - (now - earliest.unwrap_or(now)).as_secs() as u32 - 1;
            assert!(lasts.is_none_or(|own| own >= least), "{number} is worth {lasts:?}: {visit:?}");
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

    /// What is retained in the end is the last will that was to be, of those that have come.
    fn look_at_retained(&self, found: Option<&Found>) {
        let (watcher, mortal) = (self.watcher.borrow(), self.mortal.borrow());
        let numbers = watcher.got(TOPIC).iter().map(|own| own.0);
        let came: Vec<_> = numbers.filter(|number| mortal.visits[*number].retain).collect();
        let Some(found) = found else { return assert!(came.is_empty(), "nothing of {came:?}") };
        let last = came.iter().rposition(|own| *own == found.number);
        // What was not acknowledged comes again, behind others.
        let later =
            last.and_then(|last| came[last + 1..].iter().find(|own| !came[..last].contains(own)));
        assert!(last.is_some() && later.is_none(), "{found:?}, of {came:?}");
        let visit = &mortal.visits[found.number];
        assert!(found.qos == visit.qos && found.expires.is_some() == visit.lasts.is_some());
    }

    /// None has come too often. (Of QoS 1 each may be sent again.)
    fn look(&self) {
        let watcher = self.watcher.borrow();
        for (number, visit) in self.mortal.borrow().visits.iter().enumerate() {
            let came = watcher.got(TOPIC).iter().filter(|own| own.0 == number).count();
            let is_counted = visit.qos == QoS::ExactlyOnce;
            assert!(
                !is_counted || came <= visit.lives,
                "{number} has come {came} times: {visit:?}"
            );
            assert!(visit.goodbye == Goodbye::None || came == 0, "{number} has come: {visit:?}");
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

/// Comes and goes.
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
            // The disk takes long.
            Err(_) | Ok((_, Reason::SERVER_UNAVAILABLE)) => continue,
            Ok((_, reason)) => panic!("CONNECT is refused: {reason:?}"),
        };
        memory.borrow_mut().is_let_in(number, wire.is_present);
        // It was taken over.
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

/// Some are back at once, others when it is late.
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
        // Whatever was to be has been.
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
        // Some are cut where a client has just asked, others while wills wait.
        let later = [Duration::from_millis(5), Duration::from_secs(5)][seed as usize % 2];
        let cut = Cut { heard: 20, later };
        let known = lives(seed, cut, Default::default(), enter, |_| ());
        let is_kept = |visit: &&Visit| visit.goodbye == Goodbye::Kept;
        kept.set(kept.get() + known.0.visits.iter().filter(is_kept).count());
        came.set(came.get() + known.1.got(TOPIC).len());
    });
    // What is looked for did happen.
    let alone = std::env::var_os("PHALANX_SEED").is_some();
    assert!(alone || kept.get() > 0 && came.get() > 0, "{kept:?} {came:?}");
}
