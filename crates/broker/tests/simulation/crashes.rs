//! The broker keeps what it has, and loses its power: at any moment, again and again, on a disk that writes in
//! pieces. The clients go on with what they know, and in the end nothing that was acknowledged is lost, of QoS 2
//! nothing has come twice, and each topic's order is kept.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::path::Path;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use phalanx::Graph;
use phalanx::net::Listener;
use phalanx::sim::{self, Faults, Net, World};
use phalanx_broker::Broker;
use phalanx_store::{Options, Store};

use crate::{PUBLISHERS, Shared, address, config, publisher, subscriber};

/// What is on a disk.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// What a power cut would leave of it now, where segments had numbers to `highest` at the beginning.
pub(crate) fn survivors(net: &Net, highest: u64) -> Files {
    let names = (1..highest + 1000).map(|number| format!("{number:012}.journal"));
    names.filter_map(|name| Some((name.clone(), net.survivors(&name)?))).collect()
}

/// What everybody has at one moment.
#[derive(Clone)]
struct Moment {
    files: Files,
    publishers: Vec<publisher::Memory>,
    subscribers: Vec<subscriber::Memory>,
}

fn shared<M: Clone>(all: &[M]) -> Vec<Rc<RefCell<M>>> {
    all.iter().map(|memory| Rc::new(RefCell::new(memory.clone()))).collect()
}

fn copied<M: Clone>(all: &[Rc<RefCell<M>>]) -> Vec<M> {
    all.iter().map(|memory| memory.borrow().clone()).collect()
}

/// Goes on from a moment until all are through, and gives what a power cut would have left at another moment on the
/// way; what came behind it belongs to a future that has not been.
fn live(seed: u64, from: &Moment) -> Moment {
    let cut: Rc<RefCell<Option<Moment>>> = Rc::default();
    let of_world = cut.clone();
    sim::run(seed, move |world| {
        world.set_most_steps(4_000_000);
        let breaks = world.draw(3) > 0;
        let faults = if world.draw(2) == 0 { Faults::MILD } else { Faults::drawn(seed) };
        // A disk that refuses has clients send again later, in another order.
        world.set_faults(Faults { open: 0, disk: 0, full: 0, ..faults });
        begin(world, seed, &from.files);
        let (publishers, subscribers) = (shared(&from.publishers), shared(&from.subscribers));
        let absent = from.subscribers.iter().filter(|own| !own.is_subscribed).count();
        let own = Rc::new(Shared::default());
        own.absent.set(absent);
        own.breaks.set(breaks);
        for (number, memory) in subscribers.iter().enumerate() {
            let memory = memory.clone();
            world.client(subscriber::run(world.net(), own.clone(), number, memory));
        }
        for (number, memory) in publishers.iter().enumerate() {
            world.client(publisher::run(world.net(), own.clone(), number, memory.clone()));
        }
        let highest =
            from.files.len() as u64 + from.files.keys().last().map_or(0, |name| number(name));
        let net = world.net();
        world.client(async move {
            let heard = || -> u64 {
                let of_publishers = publishers.iter().map(|own| own.borrow().heard());
                of_publishers.chain(subscribers.iter().map(|own| own.borrow().heard())).sum()
            };
            let are_through = || {
                publishers.iter().all(|own| own.borrow().is_through())
                    && subscribers.iter().all(|own| own.borrow().has_all())
            };
            let enough = heard() + net.draw(60);
            // Looked at whenever anything has changed: as soon as somebody was told something, or while nobody is.
            poll_fn(|_| match heard() >= enough || are_through() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
            if net.draw(2) == 0 {
                net.sleep(Duration::from_micros(net.draw(2000))).await;
            }
            let files = survivors(&net, highest);
            let (publishers, subscribers) = (copied(&publishers), copied(&subscribers));
            *of_world.borrow_mut() = Some(Moment { files, publishers, subscribers });
        });
    });
    cut.take().expect("the cut has come")
}

fn number(name: &str) -> u64 {
    name.trim_end_matches(".journal").parse().expect("a segment")
}

/// The broker, with what there is.
pub(crate) fn begin(world: &mut World, seed: u64, files: &Files) {
    files.iter().for_each(|(name, bytes)| world.file(name, bytes.clone()));
    let options = Options {
        // Some are cleaned on the way.
        segment_bytes: [300, 2000, 1 << 20][seed as usize % 3],
        most_bytes: u64::MAX,
        most_waiting: usize::MAX,
        salt: Some(seed << 20 | 77),
    };
    let store = Store::open_in(files, world.root(), Path::new("/"), options);
    let store = store.unwrap_or_else(|error| panic!("{error}"));
    let mut graph = Graph::new();
    let broker = Broker::declare_on(&mut graph, &config(world), store, Duration::ZERO).unwrap();
    let listeners = RefCell::new(world.listen(address()));
    world.program(graph, move |start| {
        broker.begin(start);
        let listener = listeners.borrow_mut().pop().expect("one for each");
        Ok(broker.accept(Listener::new(listener)?)?)
    });
}

#[test]
fn what_is_acknowledged_survives_crashes() {
    let (torn, cleaned, begun) = (Cell::new(0), Cell::new(0), Cell::new(0));
    sim::explore_each(150, |seed| {
        let mut moment = Moment {
            files: Files::new(),
            publishers: vec![Default::default(); PUBLISHERS],
            subscribers: vec![Default::default(); 1 + seed as usize % 3],
        };
        for life in 0..2 + seed % 3 {
            moment = live(seed * 5 + life, &moment);
            let left = phalanx_store::recover(&moment.files, Path::new("/")).unwrap();
            torn.set(torn.get() + usize::from(left.torn.is_some()));
            begun.set(
                begun.get() + left.sessions.values().map(|own| own.incoming.len()).sum::<usize>(),
            );
            let is_cleaned =
                !moment.files.is_empty() && !moment.files.contains_key("000000000001.journal");
            cleaned.set(cleaned.get() + usize::from(is_cleaned));
        }
    });
    // What is looked for did happen.
    let figures = [&torn, &cleaned, &begun].map(Cell::get);
    println!("torn and cleaned journals, messages in the middle of QoS 2: {figures:?}");
    let alone = std::env::var_os("PHALANX_SEED").is_some();
    assert!(alone || figures.iter().all(|figure| *figure > 0), "{figures:?}");
}
