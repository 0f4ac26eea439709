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
use crate::simulation::power_cuts::{ClientSet, Cut, run_lives};
use crate::simulation::retained::{Found, read_retained};
use crate::simulation::subscriber::{self, Task};
use crate::simulation::wire::{ConnectOptions, Wire};

/// The number of connections of a client.
const MAX_CONNECTIONS: usize = 5;
const TOPIC: &str = "will";
/// The expiry interval of some wills in seconds: longer than a test runs.
const WILL_EXPIRY: u32 = 100_000;

/// The client's last packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DisconnectState {
    /// No DISCONNECT, or one that may have been lost.
    #[default]
    None,
    /// DISCONNECT was processed, in this life of the broker.
    Processed,
    /// DISCONNECT was processed and stored on disk.
    Durable,
}

/// One connection of a client.
#[derive(Clone, Debug, Default)]
struct Connection {
    delay: Duration,
    expiry: u32,
    clean_start: bool,
    qos: QoS,
    /// Whether the will is retained, and its expiry interval in seconds.
    retain: bool,
    will_expiry: Option<u32>,
    is_accepted: bool,
    /// Whether the will must be published.
    is_required: bool,
    /// Whether the will had to be published before the client's next CONNECT.
    was_required: bool,
    disconnect: DisconnectState,
    /// Whether the connection began in this life of the broker, and when it ended.
    is_new: bool,
    ended_at: Option<Duration>,
    /// The number of lives of the broker that may have published the will.
    broker_starts: usize,
}

/// The client's persistent state.
#[derive(Clone, Default)]
struct State {
    /// The number of packets received, and of CONNECT packets sent.
    packets_received: u64,
    connections: Vec<Connection>,
}

impl State {
    fn accepted_count(&self) -> usize {
        self.connections.iter().filter(|connection| connection.is_accepted).count()
    }

    /// Updates the expectations when the broker restarts.
    fn note_restart(&mut self) {
        for connection in &mut self.connections {
            (connection.is_new, connection.ended_at) = (false, None);
            connection.broker_starts += 1;
            if connection.disconnect == DisconnectState::Processed {
                connection.disconnect = DisconnectState::None;
            }
        }
    }

    /// Starts a connection. The CONNECT may cancel pending wills.
    fn begin_connection(&mut self, net: &Net) -> (usize, Connection) {
        self.packets_received += 1;
        for connection in &mut self.connections {
            connection.was_required = std::mem::take(&mut connection.is_required);
            connection.is_required = connection.was_required && connection.delay.is_zero();
        }
        let connection = Connection {
            delay: Duration::from_secs([0, 0, 2, 5][net.draw(4) as usize]),
            expiry: [0, 1, 4, 1000][net.draw(4) as usize],
            clean_start: net.draw(4) == 0,
            qos: [QoS::AtLeastOnce, QoS::ExactlyOnce][net.draw(2) as usize],
            retain: net.draw(2) == 0,
            will_expiry: [None, Some(WILL_EXPIRY)][net.draw(2) as usize],
            is_new: true,
            broker_starts: 1,
            ..Connection::default()
        };
        self.connections.push(connection.clone());
        (self.connections.len() - 1, connection)
    }

    fn accept(&mut self, number: usize, is_present: bool) {
        self.packets_received += 1;
        (self.connections[number].is_accepted, self.connections[number].is_required) = (true, true);
        for connection in &mut self.connections[..number] {
            if connection.disconnect == DisconnectState::Processed {
                connection.disconnect = DisconnectState::Durable;
            }
        }
        // The last session had ended, so its will was published.
        if let Some(last) = self.connections[..number].last_mut().filter(|_| !is_present) {
            last.is_required |= last.was_required;
        }
    }

    /// Checks a published will.
    fn check_will(&self, number: usize, will_expiry: Option<u32>, now: Duration) {
        let connection = &self.connections[number];
        assert_eq!(
            connection.disconnect,
            DisconnectState::None,
            "the will {number} was published: {connection:?}"
        );
        let is_last = number + 1 == self.connections.len();
        if is_last && connection.is_new && connection.is_accepted {
            let expiry = Duration::from_secs(connection.expiry.into());
            let earliest =
                connection.ended_at.map(|ended_at| ended_at + connection.delay.min(expiry));
            assert!(
                earliest.is_some_and(|at| at <= now),
                "{number} has come at {now:?}: {connection:?}"
            );
            // The expiry interval starts when the will is published, not earlier.
            let least = WILL_EXPIRY - (now - earliest.unwrap_or(now)).as_secs() as u32 - 1;
            assert!(
                will_expiry.is_none_or(|expiry| expiry >= least),
                "the will {number} expires in {will_expiry:?}: {connection:?}"
            );
        }
        assert!(
            will_expiry.is_some() == connection.will_expiry.is_some()
                && will_expiry <= connection.will_expiry,
            "{will_expiry:?}"
        );
    }
}

struct Clients {
    client: Rc<RefCell<State>>,
    observer: Rc<RefCell<subscriber::State>>,
}

impl Clients {
    fn missing(&self) -> usize {
        let observer = self.observer.borrow();
        let has_arrived =
            |number| observer.messages(TOPIC).iter().any(|message| message.0 == number);
        let connections = &self.client.borrow().connections;
        connections
            .iter()
            .enumerate()
            .filter(|(n, connection)| connection.is_required && !has_arrived(*n))
            .count()
    }

    /// Checks that the message retained at the end is the last required will that arrived.
    fn check_retained(&self, found: Option<&Found>) {
        let (observer, client) = (self.observer.borrow(), self.client.borrow());
        let numbers = observer.messages(TOPIC).iter().map(|message| message.0);
        let arrived: Vec<_> = numbers.filter(|number| client.connections[*number].retain).collect();
        let Some(found) = found else {
            return assert!(arrived.is_empty(), "none of {arrived:?} is retained");
        };
        let last = arrived.iter().rposition(|number| *number == found.number);
        // An unacknowledged will arrives again, after others.
        let later = last.and_then(|last| {
            arrived[last + 1..].iter().find(|number| !arrived[..last].contains(number))
        });
        assert!(last.is_some() && later.is_none(), "{found:?}, of {arrived:?}");
        let connection = &client.connections[found.number];
        assert!(
            found.qos == connection.qos
                && found.expires.is_some() == connection.will_expiry.is_some()
        );
    }

    /// Checks that no will arrived too often. (A QoS 1 message may be retransmitted.)
    fn check(&self) {
        let observer = self.observer.borrow();
        for (number, connection) in self.client.borrow().connections.iter().enumerate() {
            let arrived =
                observer.messages(TOPIC).iter().filter(|message| message.0 == number).count();
            let is_counted = connection.qos == QoS::ExactlyOnce;
            assert!(
                !is_counted || arrived <= connection.broker_starts,
                "{number} has come {arrived} times: {connection:?}"
            );
            assert!(
                connection.disconnect == DisconnectState::None || arrived == 0,
                "the will {number} was published: {connection:?}"
            );
        }
    }
}

impl ClientSet for Clients {
    type Snapshot = (State, subscriber::State);

    fn packets_received(&self) -> u64 {
        self.client.borrow().packets_received + self.observer.borrow().packets_received()
    }

    fn are_done(&self) -> bool {
        self.client.borrow().accepted_count() >= MAX_CONNECTIONS && self.missing() == 0
    }

    fn snapshot(&self) -> Self::Snapshot {
        (self.client.borrow().clone(), self.observer.borrow().clone())
    }
}

/// Connects and disconnects repeatedly.
async fn connect_repeatedly(
    net: Net,
    shared: Rc<Shared>,
    state: Rc<RefCell<State>>,
    is_over: Rc<Cell<bool>>,
) {
    while shared.absent.get() > 0 {
        net.sleep(Duration::from_millis(10)).await;
    }
    let mut before = None;
    while state.borrow().accepted_count() < MAX_CONNECTIONS {
        pause(&net).await;
        let (number, connection) = state.borrow_mut().begin_connection(&net);
        let mut properties = PropertyBuffer::new();
        properties.push(Property::WillDelay(connection.delay.as_secs() as u32)).unwrap();
        let will_expiry = connection.will_expiry.map(Property::MessageExpiry);
        will_expiry.into_iter().for_each(|will_expiry| properties.push(will_expiry).unwrap());
        let payload = number.to_string();
        let (topic, payload, qos, retain) =
            (TOPIC, payload.as_bytes(), connection.qos, connection.retain);
        let will = Some(Will { topic, payload, qos, retain, properties: properties.get() });
        let Connection { expiry, clean_start, .. } = connection;
        let options = ConnectOptions { name: "mortal", expiry, clean_start, will };
        let mut wire: Wire = match Wire::open(&net, options).await {
            Ok((wire, Reason::SUCCESS)) => wire,
            // The broker's disk is slow.
            Err(_) | Ok((_, Reason::SERVER_UNAVAILABLE)) => continue,
            Ok((_, reason)) => panic!("the CONNECT is refused: {reason:?}"),
        };
        state.borrow_mut().accept(number, wire.is_present);
        // The new connection took over the session.
        drop(before.take());
        net.sleep(Duration::from_millis(net.draw(1000))).await;
        let leave = || state.borrow_mut().connections[number].ended_at = Some(net.now());
        match net.draw(8) {
            0 => {
                leave();
                wire.reset();
            }
            1..=3 if state.borrow().accepted_count() < MAX_CONNECTIONS => before = Some(wire),
            4 | 5 => {
                state.borrow_mut().connections[number].is_required = false;
                leave();
                let disconnect = Packet::Disconnect(Disconnect::new(Reason::SUCCESS));
                if wire.send(&disconnect).await.is_ok() && wire.wait_for_close().await {
                    state.borrow_mut().connections[number].disconnect = DisconnectState::Processed;
                }
            }
            6 => {
                leave();
                let reason = Reason::DISCONNECT_WITH_WILL;
                let _ = wire.send(&Packet::Disconnect(Disconnect::new(reason))).await;
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

fn add_clients(world: &mut World, breaks: bool, states: &(State, subscriber::State)) -> Clients {
    let own = Rc::new(Shared::default());
    own.absent.set(usize::from(!states.1.is_subscribed));
    own.breaks.set(breaks);
    let (client, observer) = states.clone();
    let (client, observer) = (Rc::new(RefCell::new(client)), Rc::new(RefCell::new(observer)));
    client.borrow_mut().note_restart();
    let clients = || Clients { client: client.clone(), observer: observer.clone() };
    let is_over = Rc::new(Cell::new(false));
    world.client(connect_repeatedly(world.net(), own.clone(), client.clone(), is_over.clone()));
    let (net, of_client, all, final_clients) = (world.net(), client.clone(), clients(), clients());
    let task = Task {
        name: "watcher".to_owned(),
        filter: TOPIC,
        unsubscribe_after: usize::MAX,
        unexpected_from: Box::new(Vec::new),
        on_message: Box::new(move |number, will_expiry| {
            of_client.borrow().check_will(number, will_expiry, net.now())
        }),
        is_done: Box::new(move || is_over.get() && all.missing() == 0),
        // Long enough for all required wills to be published.
        linger_time: Duration::from_secs(20),
    };
    let run = subscriber::run(world.net(), own, task, observer.clone());
    let (net, name) = (world.net(), format!("heir {}", world.seed()));
    world.client(async move {
        run.await;
        final_clients.check();
        for round in 0.. {
            let name = format!("{name} {round}");
            if let Ok(found) = read_retained(&net, (&name, TOPIC), &Cell::new(0)).await {
                return final_clients.check_retained(found.get(TOPIC));
            }
        }
    });
    clients()
}

#[test]
fn wills_survive_crashes() {
    let (durable, arrived) = (Cell::new(0), Cell::new(0));
    sim::explore_each(60, |seed| {
        // Some power cuts come right after a CONNECT, others while wills are pending.
        let max_delay = [Duration::from_millis(5), Duration::from_secs(5)][seed as usize % 2];
        let cut = Cut { max_packets: 20, max_delay };
        let states = run_lives(seed, cut, Default::default(), add_clients, |_| ());
        let is_durable =
            |connection: &&Connection| connection.disconnect == DisconnectState::Durable;
        durable.set(durable.get() + states.0.connections.iter().filter(is_durable).count());
        arrived.set(arrived.get() + states.1.messages(TOPIC).len());
    });
    // The test reached the intended situations.
    let alone = std::env::var_os("PHALANX_SEED").is_some();
    assert!(alone || durable.get() > 0 && arrived.get() > 0, "{durable:?} {arrived:?}");
}
