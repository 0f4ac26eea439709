//! The broker repeatedly loses power at arbitrary moments. Clients continue with their own state. In the end no
//! acknowledged message is lost, no QoS 2 message arrives twice, and the order of each topic is preserved.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

use phalanx::sim::{self, World};

use crate::simulation::lives::{Cut, Everybody, copied, handles, lives};
use crate::simulation::{PUBLISHERS, Shared, publisher, subscriber};

/// State shared by all clients.
#[derive(Clone)]
struct Known {
    publishers: Vec<publisher::Memory>,
    subscribers: Vec<subscriber::Memory>,
}

struct Clients {
    publishers: Vec<Rc<RefCell<publisher::Memory>>>,
    subscribers: Vec<Rc<RefCell<subscriber::Memory>>>,
}

impl Everybody for Clients {
    type Moment = Known;

    fn heard(&self) -> u64 {
        let of_publishers = self.publishers.iter().map(|own| own.borrow().heard());
        of_publishers.chain(self.subscribers.iter().map(|own| own.borrow().heard())).sum()
    }

    fn are_through(&self) -> bool {
        self.publishers.iter().all(|own| own.borrow().is_through())
            && self.subscribers.iter().all(|own| own.borrow().has_all())
    }

    fn moment(&self) -> Known {
        Known { publishers: copied(&self.publishers), subscribers: copied(&self.subscribers) }
    }
}

/// Adds all publishers and subscribers, with their state.
fn enter(world: &mut World, breaks: bool, known: &Known) -> Clients {
    let Known { publishers, subscribers } = known;
    let own = Rc::new(Shared::default());
    own.absent.set(subscribers.iter().filter(|own| !own.is_subscribed).count());
    own.breaks.set(breaks);
    let (publishers, subscribers) = (handles(publishers), handles(subscribers));
    subscriber::enter(world, &own, &subscribers);
    publisher::enter(world, &own, publisher::number, &publishers);
    Clients { publishers, subscribers }
}

#[test]
fn acknowledged_messages_survive_crashes() {
    let (torn, cleaned, begun) = (Cell::new(0), Cell::new(0), Cell::new(0));
    sim::explore_each(150, |seed| {
        let known = Known {
            publishers: vec![Default::default(); PUBLISHERS],
            subscribers: vec![Default::default(); 1 + seed as usize % 3],
        };
        lives(seed, Cut::MIDST, known, enter, |files| {
            let left = phalanx_store::recover(files, Path::new("/")).unwrap();
            torn.set(torn.get() + usize::from(left.torn.is_some()));
            begun.set(
                begun.get() + left.sessions.values().map(|own| own.incoming.len()).sum::<usize>(),
            );
            let is_cleaned = !files.is_empty() && !files.contains_key("000000000001.journal");
            cleaned.set(cleaned.get() + usize::from(is_cleaned));
        });
    });
    // The test reached the intended situations.
    let figures = [&torn, &cleaned, &begun].map(Cell::get);
    println!("torn and cleaned journals, messages in the middle of QoS 2: {figures:?}");
    let alone = std::env::var_os("PHALANX_SEED").is_some();
    assert!(alone || figures.iter().all(|figure| *figure > 0), "{figures:?}");
}
