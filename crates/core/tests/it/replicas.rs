//! Replicated values: readers find current values only, on any processor, and revoked values are freed.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use phalanx_core::{Graph, MoveError, PartitionedStage, Published, ReplicatedStage, yield_now};
use proptest::prelude::*;

use crate::common::{Program, run};

const PROCESSORS: usize = 3;
const PARTITIONS: usize = 4;
/// Few enough for replicas to be displaced.
const KEYS: u64 = 12;
const ENTRIES: usize = 8;

/// A version of a key's value; counts how many exist.
struct Version {
    key: u64,
    number: usize,
    alive: Arc<AtomicUsize>,
}

impl Version {
    fn new(key: u64, number: usize, alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Relaxed);
        Self { key, number, alive: alive.clone() }
    }
}

impl Drop for Version {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Relaxed);
    }
}

type Owner = PartitionedStage<HashMap<u64, Published<Version>>>;
type Index = ReplicatedStage<Version>;

fn declare(graph: &mut Graph) -> (Index, Owner) {
    let index = graph.stage("index").replicated(ENTRIES);
    let owner = graph.stage("owner").partitions(PARTITIONS).partitioned(|_| HashMap::new());
    (index, owner)
}

#[derive(Clone, Debug)]
enum Event {
    /// A read from a processor, which holds the value for this many turns.
    Read(usize, u64, u8),
    /// A read from a processor that has not received its messages yet.
    Peek(usize, u64),
    Replace(usize, u64),
    Remove(usize, u64),
    Move(usize, usize, usize),
    Turn(u8),
}

fn event() -> impl Strategy<Value = Event> {
    let at = 0..PROCESSORS;
    prop_oneof![
        8 => (at.clone(), 0..KEYS, 0u8..3).prop_map(|(at, key, n)| Event::Read(at, key, n)),
        8 => (at.clone(), 0..KEYS).prop_map(|(at, key)| Event::Peek(at, key)),
        2 => (at.clone(), 0..KEYS).prop_map(|(at, key)| Event::Replace(at, key)),
        1 => (at.clone(), 0..KEYS).prop_map(|(at, key)| Event::Remove(at, key)),
        1 => (at.clone(), 0..PARTITIONS, at).prop_map(|(at, part, to)| Event::Move(at, part, to)),
        8 => any::<u8>().prop_map(Event::Turn),
    ]
}

/// Reads a value, from a replica or from its owner. `current` has the version that the owner holds.
async fn read(index: Index, owner: Owner, current: &RefCell<HashMap<u64, usize>>, key: u64, n: u8) {
    let number = |key| current.borrow().get(&key).copied();
    if let Some(replica) = index.get(key, |value| value.key == key) {
        assert_eq!(Some(replica.number), number(key), "a revoked value is found");
        for _ in 0..n {
            yield_now().await;
        }
        assert_eq!(replica.key, key, "a replica in use stays");
        return;
    }
    let before = number(key);
    let call = owner.call(key << 58, move |owned| async move {
        owned.with(|owned| owned.get(&key).map(Published::offer))
    });
    if let Some(offer) = call.await.unwrap() {
        let kept = index.keep(offer);
        assert!(Some(kept.number) >= before, "older than the version at the time of the call");
        let replica = index.get(key, |_| true);
        let replica = replica.is_some_and(|replica| replica.number == kept.number);
        assert_eq!(replica, number(key) == Some(kept.number), "kept if it is current");
    }
}

fn churn(events: &[Event]) {
    let alive = Arc::new(AtomicUsize::new(0));
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let (index, owner) = declare(&mut graph);
    let program = Program::new(graph, PROCESSORS);
    // Written by the owners' operations, which run on this thread.
    let current = Rc::new(RefCell::new(HashMap::new()));
    thread_local!(static CURRENT: RefCell<Rc<RefCell<HashMap<u64, usize>>>> = RefCell::default());
    CURRENT.set(current.clone());
    let versions = Rc::new(Cell::new(0));
    for event in events {
        let (alive, current, versions) = (alive.clone(), current.clone(), versions.clone());
        match event.clone() {
            Event::Turn(at) => {
                program.turn(at.into());
            }
            Event::Read(at, key, n) => program.processors[at].enter(|| {
                main.dispatch(move |_| async move { read(index, owner, &current, key, n).await })
                    .unwrap();
            }),
            Event::Peek(at, key) => program.processors[at].enter(|| {
                let replica = index.get(key, |_| true).map(|replica| replica.number);
                let number = current.borrow().get(&key).copied();
                assert!(replica.is_none() || replica == number, "a revoked value is found");
            }),
            Event::Replace(at, key) => program.processors[at].enter(|| {
                versions.set(versions.get() + 1);
                let number = versions.get();
                let replaced = owner.dispatch(key << 58, move |owned| async move {
                    let new = index.publish(key, Version::new(key, number, &alive));
                    owned.with(|owned| owned.insert(key, new));
                    CURRENT.with_borrow(|current| current.borrow_mut().insert(key, number));
                });
                replaced.unwrap();
            }),
            Event::Remove(at, key) => program.processors[at].enter(|| {
                let removed = owner.dispatch(key << 58, move |owned| async move {
                    owned.with(|owned| owned.remove(&key));
                    CURRENT.with_borrow(|current| current.borrow_mut().remove(&key));
                });
                removed.unwrap();
            }),
            Event::Move(at, partition, to) => program.processors[at].enter(|| {
                let moving = main.dispatch(move |_| async move {
                    let moved = owner.move_partition(partition, to).await;
                    assert!(matches!(moved, Ok(()) | Err(MoveError::Busy)), "{moved:?}");
                });
                moving.unwrap();
            }),
        }
    }
    program.settle(250);
    assert_eq!(program.live(), [0; PROCESSORS]);
    assert_eq!(alive.load(Relaxed), current.borrow().len(), "revoked values are freed");
    for processor in program.processors[0].control().profile().processors {
        assert!(processor.stages[1].replica_bytes <= 50 * ENTRIES as u64);
    }
    drop(program);
    assert_eq!(alive.load(Relaxed), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn readers_find_current_values_only(events in proptest::collection::vec(event(), 1..160)) {
        churn(&events);
    }
}

#[test]
fn a_hit_does_not_cross() {
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let (index, owner) = declare(&mut graph);
    let program = Program::new(graph, 2);
    let alive = Arc::new(AtomicUsize::new(0));
    for processor in &program.processors {
        let alive = alive.clone();
        processor.enter(|| {
            main.dispatch(move |_| async move {
                for _ in 0..100 {
                    if index.get(5, |_| true).is_some() {
                        continue;
                    }
                    let alive = alive.clone();
                    let call = owner.call(5, move |owned| async move {
                        let make = || index.publish(5, Version::new(5, 0, &alive));
                        owned.with(|owned| owned.entry(5).or_insert_with(make).offer())
                    });
                    index.keep(call.await.unwrap());
                }
            })
            .unwrap();
        });
        program.settle(3);
    }
    let control = program.processors[0].control();
    let profile = control.profile();
    let sum = |stage: usize| -> u64 {
        profile.processors.iter().map(|processor| processor.stages[stage].completed.count).sum()
    };
    assert_eq!((sum(1), sum(2)), (198, 2), "one call to the owner from each processor");
    let replicas = control.bytes().replicas;
    assert!(replicas.len() == 1 && replicas[0].stage == 1 && replicas[0].bytes > 0, "{replicas:?}");
    assert_eq!(alive.load(Relaxed), 1);
}

/// On threads: the versions that a processor reads never decrease, though other processors replace them.
#[test]
fn versions_do_not_go_back() {
    const ROUNDS: usize = if cfg!(miri) { 20 } else { 2000 };
    let alive = Arc::new(AtomicUsize::new(0));
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let (index, owner) = declare(&mut graph);
    let next: Arc<[AtomicU64; KEYS as usize]> =
        Arc::new(std::array::from_fn(|_| AtomicU64::new(0)));
    run(graph, PROCESSORS, |at, control| {
        let (alive, next) = (alive.clone(), next.clone());
        let reading = main.dispatch(move |_| async move {
            let mut newest = [0; KEYS as usize];
            for round in 0..ROUNDS {
                let key = (round * 7 + at) as u64 % KEYS;
                if round % 5 == 0 {
                    let (alive, next) = (alive.clone(), next.clone());
                    let call = owner.call(key << 58, move |owned| async move {
                        owned.with(|owned| {
                            let number = next[key as usize].fetch_add(1, Relaxed) as usize + 1;
                            let new = Version::new(key, number, &alive);
                            owned.insert(key, index.publish(key, new));
                            number
                        })
                    });
                    let number = call.await.unwrap();
                    let seen = index.get(key, |_| true).map(|replica| replica.number);
                    assert!(seen.is_none_or(|seen| seen >= number), "older than one's own write");
                    newest[key as usize] = number;
                }
                let replica = match index.get(key, |_| true) {
                    Some(replica) => replica,
                    None => {
                        let call = owner.call(key << 58, move |owned| async move {
                            owned.with(|owned| owned.get(&key).map(Published::offer))
                        });
                        let Some(offer) = call.await.unwrap() else { continue };
                        index.keep(offer)
                    }
                };
                assert!(replica.number >= newest[key as usize], "a version that was replaced");
                newest[key as usize] = replica.number;
            }
            control.drain();
        });
        reading.unwrap();
    });
    assert_eq!(alive.load(Relaxed), 0, "all freed with the program");
}
