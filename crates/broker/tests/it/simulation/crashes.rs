//! The broker repeatedly loses power at arbitrary moments. Clients continue with their own state. In the end no
//! acknowledged message is lost, no QoS 2 message arrives twice, and the order of each topic is preserved.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

use phalanx::sim::{self, World};

use crate::simulation::power_cuts::{ClientSet, Cut, cloned_states, handles, run_lives};
use crate::simulation::{PUBLISHERS, Shared, publisher, subscriber};

/// State shared by all clients.
#[derive(Clone)]
struct ClientStates {
    publishers: Vec<publisher::State>,
    subscribers: Vec<subscriber::State>,
}

struct Clients {
    publishers: Vec<Rc<RefCell<publisher::State>>>,
    subscribers: Vec<Rc<RefCell<subscriber::State>>>,
}

impl ClientSet for Clients {
    type Snapshot = ClientStates;

    fn packets_received(&self) -> u64 {
        let of_publishers =
            self.publishers.iter().map(|publisher| publisher.borrow().packets_received());
        of_publishers
            .chain(self.subscribers.iter().map(|subscriber| subscriber.borrow().packets_received()))
            .sum()
    }

    fn are_done(&self) -> bool {
        self.publishers.iter().all(|publisher| publisher.borrow().is_done())
            && self.subscribers.iter().all(|subscriber| subscriber.borrow().has_all())
    }

    fn snapshot(&self) -> ClientStates {
        ClientStates {
            publishers: cloned_states(&self.publishers),
            subscribers: cloned_states(&self.subscribers),
        }
    }
}

/// Adds all publishers and subscribers, with their state.
fn add_clients(world: &mut World, breaks: bool, states: &ClientStates) -> Clients {
    let ClientStates { publishers, subscribers } = states;
    let own = Rc::new(Shared::default());
    own.absent.set(subscribers.iter().filter(|subscriber| !subscriber.is_subscribed).count());
    own.breaks.set(breaks);
    let (publishers, subscribers) = (handles(publishers), handles(subscribers));
    subscriber::add_all(world, &own, &subscribers);
    publisher::add_all(world, &own, publisher::numbered_message, &publishers);
    Clients { publishers, subscribers }
}

#[test]
fn acknowledged_messages_survive_crashes() {
    let (torn, cleaned, begun) = (Cell::new(0), Cell::new(0), Cell::new(0));
    sim::explore_each(150, |seed| {
        let states = ClientStates {
            publishers: vec![Default::default(); PUBLISHERS],
            subscribers: vec![Default::default(); 1 + seed as usize % 3],
        };
        run_lives(seed, Cut::WHILE_PUBLISHING, states, add_clients, |files| {
            let left = phalanx_store::recover(files, Path::new("/")).unwrap();
            torn.set(torn.get() + usize::from(left.torn.is_some()));
            begun.set(
                begun.get()
                    + left.sessions.values().map(|session| session.incoming.len()).sum::<usize>(),
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
