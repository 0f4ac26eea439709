//! Simulations of the broker. Connections of publishers and subscribers break at arbitrary times, over an unreliable
//! network, and the clients resume their sessions. Acknowledged messages arrive, those of QoS 2 exactly once. Messages of
//! one publisher and one QoS arrive in order. When all clients are done, the broker holds no messages.

mod adopted;
mod agreed;
mod alternating;
mod both;
mod bridged;
mod claims;
mod clustered;
mod conditions;
mod crashes;
mod crowded;
mod discarded;
mod disk;
mod forgotten;
mod forwarded;
mod full_disk;
mod full_node;
mod gates;
mod groups;
mod handed;
mod inbox;
mod joining;
mod limits;
mod local;
mod moved;
mod moving;
mod nemesis;
mod nodes;
mod power_cuts;
mod publisher;
mod retained;
mod returning;
mod shares;
mod slow;
mod stalled;
mod subscriber;
mod taken_back;
mod wills;
mod wire;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use phalanx::Graph;

use phalanx::runtime::{ActiveProcessors, StartContext, StartError};
use phalanx::sim::{self, Faults, Listeners, World};
use phalanx_broker::{Broker, Config};
use phalanx_mqtt::QoS;

use crate::simulation::power_cuts::handles;
use crate::simulation::wire::{Brokers, address};

const PUBLISHERS: usize = 2;
const MESSAGES: usize = 12;

/// State that clients share outside the simulated network.
#[derive(Default)]
struct Shared {
    /// The number of subscribers that have not subscribed yet.
    absent: Rc<Cell<usize>>,
    /// Whether connections break.
    breaks: Cell<bool>,
    /// Maximum time between the messages of a publisher.
    pace: Cell<Duration>,
    publishers_at: Cell<Brokers>,
    subscribers_at: Cell<Brokers>,
}

/// The publishers and the subscribers.
type Clients = (Vec<Rc<RefCell<publisher::State>>>, Vec<Rc<RefCell<subscriber::State>>>);

/// Adds the publishers, and this number of subscribers.
fn add_clients(world: &mut World, shared: &Rc<Shared>, subscribers: usize) -> Clients {
    let subscribers = handles(&vec![Default::default(); subscribers]);
    subscriber::add_all(world, shared, &subscribers);
    let publishers = handles(&[(); PUBLISHERS].map(|()| Default::default()));
    publisher::add_all(world, shared, publisher::numbered_message, &publishers);
    (publishers, subscribers)
}

/// Whether all clients have finished: each of them holds `shared`, as does the caller.
fn are_done(shared: &Rc<Shared>) -> bool {
    Rc::strong_count(shared) == 1
}

/// Starts each broker, and lets it accept clients.
fn serve(
    start: &StartContext,
    brokers: &[Broker],
    listeners: &[Listeners],
) -> Result<(), StartError> {
    for (broker, listeners) in brokers.iter().zip(listeners) {
        broker.begin(start);
        broker.accept(listeners.listener(start)?)?;
    }
    Ok(())
}

/// The QoS of a publisher's message with this number.
fn qos(number: usize) -> QoS {
    if number.is_multiple_of(3) { QoS::AtLeastOnce } else { QoS::ExactlyOnce }
}

fn config(world: &World) -> Config {
    let mut config = Config::new();
    config.runtime.workers = world.processors();
    config.limits.connect = Duration::from_secs(3600);
    config.limits.send = Duration::from_secs(3600);
    // Usually low, so that publishers are throttled.
    config.limits.inflight_deliveries =
        [1, 2, 5, config.limits.inflight_deliveries][world.seed() as usize / 3 % 4];
    config
}

/// Starts a broker without a journal. `started` gets the number of active processors.
fn begin(world: &mut World, config: &Config, started: impl Fn(ActiveProcessors) + 'static) {
    let mut graph = Graph::new();
    let broker = Broker::declare(&mut graph, config);
    let listeners = world.listen(address());
    world.program(graph, move |start| {
        started(start.active());
        Ok(broker.accept(listeners.listener(start)?)?)
    });
}

fn world(world: &mut World) {
    run_world(world, |_| ());
}

/// `started` gets the number of active processors.
fn run_world(world: &mut World, started: impl Fn(ActiveProcessors) + 'static) {
    world.set_max_steps(2_000_000);
    let shared = Rc::new(Shared::default());
    if world.draw(2) == 0 {
        world.set_faults(Faults { full: 0, ..Faults::random(world.seed()) });
    }
    shared.breaks.set(world.draw(3) > 0);
    begin(world, &config(world), started);
    let subscribers = 1 + world.draw(3) as usize;
    shared.absent.set(subscribers);
    add_clients(world, &shared, subscribers);
}

#[test]
fn acknowledged_messages_arrive() {
    sim::explore(60, world);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 1000..1005 {
        assert_eq!(sim::run(seed, world), sim::run(seed, world));
    }
}

/// Every simulation checks that the broker makes only declared calls. This test checks the converse. The expected calls
/// that do not occur need a journal, bridges, host names or keys to fetch, which these runs do not have.
#[test]
fn declared_calls_occur() {
    let expected = [
        "\"control\" invokes \"access\"",
        "\"control\" invokes \"bridges\"",
        "\"control\" invokes \"delivery\"",
        "\"control\" invokes \"resolver\"",
        "\"delivery\" invokes \"delivery\"",
        "\"sessions\" invokes \"delivery\"",
    ];
    assert_eq!(sim::unobserved_calls(0..20, world), expected);
}
