//! A broker with durable state that loses power at arbitrary moments, on a disk that writes in pieces. Clients continue
//! with their own state.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use phalanx::runtime::StartContext;
use phalanx::sim::{self, Faults, Net, World};
use phalanx::{CallError, Graph};
use phalanx_broker::Broker;
use phalanx_store::{Options, Store};

use crate::simulation::config;
use crate::simulation::wire::{address, until};

/// The files on a disk.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// All clients of a world.
pub(crate) trait ClientSet: 'static {
    /// A copy of all clients' state at one moment.
    type Snapshot: 'static;

    /// The number of packets that all clients have received.
    fn packets_received(&self) -> u64;

    /// Whether all clients are done.
    fn are_done(&self) -> bool;

    fn snapshot(&self) -> Self::Snapshot;
}

/// When to cut the power, unless all clients finish first: after a random number of packets below `max_packets`, and
/// sometimes a random time below `max_delay` after that.
#[derive(Clone, Copy)]
pub(crate) struct Cut {
    pub(crate) max_packets: u64,
    pub(crate) max_delay: Duration,
}

impl Cut {
    /// A cut while messages are being published.
    pub(crate) const WHILE_PUBLISHING: Self =
        Self { max_packets: 60, max_delay: Duration::from_millis(2) };
}

/// The files that a power cut now would leave. `highest` is the highest segment number that existed at the
/// start.
pub(crate) fn survivors(net: &Net, highest: u64) -> Files {
    let segments = (1..highest + 1000).map(|number| format!("{number:012}.journal"));
    let names = segments.chain(["position".to_owned()]);
    names.filter_map(|name| Some((name.clone(), net.content_after_power_cut(&name)?))).collect()
}

/// Runs brokers one after the other, each with the files that the previous one's power cut left. Calls `add_clients` to
/// add the clients, which continue with their own state, and `on_power_cut` with the files after each life. Returns the
/// clients' final state.
pub(crate) fn run_lives<E: ClientSet>(
    seed: u64,
    cut: Cut,
    mut states: E::Snapshot,
    add_clients: impl Fn(&mut World, bool, &E::Snapshot) -> E,
    mut on_power_cut: impl FnMut(&Files),
) -> E::Snapshot {
    let (mut files, mut start_time) = (Files::new(), None);
    for life in 0..2 + seed % 3 {
        let add_clients = |world: &mut World, breaks| add_clients(world, breaks, &states);
        let ended;
        (files, states, ended) = run_life(seed * 5 + life, (&files, start_time), cut, add_clients);
        start_time = Some(ended);
        on_power_cut(&files);
    }
    states
}

/// Runs a broker with `files`, starting at a time of day, until all clients are done. Calls `add_clients` with whether
/// connections break. Returns the files that a power cut at some earlier moment would have left, and the clients' state
/// and the time at that moment. Everything after it is discarded.
fn run_life<E: ClientSet>(
    seed: u64,
    (files, start_time): (&Files, Option<Duration>),
    cut: Cut,
    add_clients: impl FnOnce(&mut World, bool) -> E,
) -> (Files, E::Snapshot, Duration) {
    let remains = Rc::new(Cell::new(None));
    let of_world = remains.clone();
    sim::run(seed, move |world| {
        world.set_max_steps(4_000_000);
        start_time.into_iter().for_each(|start_time| world.set_time_of_day(start_time));
        let breaks = world.draw(3) > 0;
        let faults = if world.draw(2) == 0 { Faults::MILD } else { Faults::random(seed) };
        // No disk errors: when the disk refuses writes, clients retransmit messages later, in another order.
        world.set_faults(Faults { open: 0, disk: 0, full: 0, ..faults });
        start_broker(world, seed, files);
        let clients = add_clients(world, breaks);
        let highest =
            files.len() as u64 + files.keys().filter_map(|name| number(name)).max().unwrap_or(0);
        let net = world.net();
        world.client(async move {
            let enough = clients.packets_received() + net.draw(cut.max_packets);
            // Checked after each step of the world, so the cut comes right after a client received a packet, or in
            // between.
            until(|| clients.packets_received() >= enough || clients.are_done()).await;
            if net.draw(2) == 0 {
                net.sleep(Duration::from_micros(net.draw(cut.max_delay.as_micros() as u64))).await;
            }
            let remains = (survivors(&net, highest), clients.snapshot(), net.time_of_day());
            of_world.set(Some(remains));
        });
    });
    remains.take().expect("the power cut happened")
}

/// The number of a segment; `None` for other files.
fn number(name: &str) -> Option<u64> {
    name.strip_suffix(".journal")?.parse().ok()
}

/// Starts the broker with `files`.
pub(crate) fn start_broker(world: &mut World, seed: u64, files: &Files) {
    start_broker_beside(world, seed, files, (Graph::new(), |_: &StartContext| Ok(())));
}

/// Starts the broker beside other stages in the same graph, which have their own start.
pub(crate) fn start_broker_beside(
    world: &mut World,
    seed: u64,
    files: &Files,
    beside: (Graph, impl Fn(&StartContext) -> Result<(), CallError> + 'static),
) -> Broker {
    start_broker_with(world, options(seed), files, beside)
}

fn options(seed: u64) -> Options {
    Options {
        // Small sizes make the store clean segments during the test.
        segment_bytes: [300, 2000, 1 << 20][seed as usize % 3],
        max_bytes: u64::MAX,
        max_pending_bytes: usize::MAX,
        reserve_bytes: 0,
        accept_loss: false,
        salt: Some(seed << 20 | 77),
    }
}

/// Starts the broker with a disk reserve of three segments.
pub(crate) fn start_broker_with_reserve(
    world: &mut World,
    seed: u64,
    segment_bytes: u64,
    files: &Files,
) -> Broker {
    let options = Options { segment_bytes, reserve_bytes: 3 * segment_bytes, ..options(seed) };
    start_broker_with(world, options, files, (Graph::new(), |_: &StartContext| Ok(())))
}

fn start_broker_with(
    world: &mut World,
    options: Options,
    files: &Files,
    (mut graph, others): (Graph, impl Fn(&StartContext) -> Result<(), CallError> + 'static),
) -> Broker {
    files.iter().for_each(|(name, bytes)| world.file(name, bytes.clone()));
    let store = Store::open_in(files, world.root(), Path::new("/"), options);
    let store = store.unwrap_or_else(|error| panic!("{error}"));
    let broker =
        Broker::declare_on(&mut graph, &config(world), store, world.time_of_day()).unwrap();
    let listeners = world.listen(address());
    let begun = broker.clone();
    world.program(graph, move |start| {
        broker.begin(start);
        others(start)?;
        Ok(broker.accept(listeners.listener(start)?)?)
    });
    begun
}

/// A shared handle to each client's state.
pub(crate) fn handles<M: Clone>(all: &[M]) -> Vec<Rc<RefCell<M>>> {
    all.iter().map(|state| Rc::new(RefCell::new(state.clone()))).collect()
}

/// A copy of each client's state.
pub(crate) fn cloned_states<M: Clone>(all: &[Rc<RefCell<M>>]) -> Vec<M> {
    all.iter().map(|state| state.borrow().clone()).collect()
}
