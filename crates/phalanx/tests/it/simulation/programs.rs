//! Random programs: each operation runs once, each caller receives its callee's result, ended sessions are
//! empty, and everything is released at the end.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use phalanx::sim::{self, World};
use phalanx::stage::BalancedStage;
use phalanx::sync::oneshot;
use phalanx::{
    Call, CallError, ExclusiveStage, Graph, PartitionedStage, Session, SharedStage, join, sleep,
    timeout, yield_now,
};

/// Records faults for the end of the run, because a panic in an operation would be caught.
#[derive(Default)]
struct Ledger {
    alive: AtomicUsize,
    /// How often each operation was started.
    started: Mutex<HashMap<u64, usize>>,
    faults: Mutex<Vec<String>>,
}

impl Ledger {
    fn expect(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.faults.lock().unwrap().push(what());
        }
    }
}

#[derive(Clone, Copy)]
enum Stage {
    Shared(SharedStage<AtomicU64>),
    Partitioned(PartitionedStage<u64>),
    Exclusive(ExclusiveStage<u64>),
    Balanced(BalancedStage<AtomicU64>),
}

/// The parameters shared by all operations of a program.
struct Plan {
    stages: Vec<Stage>,
    processors: usize,
    /// Whether operations may panic.
    panics: bool,
    /// Whether the operation limit may be reached.
    may_be_full: bool,
    ledger: Arc<Ledger>,
}

/// An operation. Its number determines its behavior, independent of when it runs.
struct Work {
    plan: Arc<Plan>,
    id: u64,
    depth: u32,
    /// The number of operations in its session, on all processors.
    group: Option<Arc<AtomicUsize>>,
    /// Whether it may be ended.
    may_end: bool,
}

impl Drop for Work {
    fn drop(&mut self) {
        self.plan.ledger.alive.fetch_sub(1, Ordering::Relaxed);
        if let Some(group) = &self.group {
            group.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Work {
    fn root(plan: &Arc<Plan>, id: u64) -> Self {
        plan.ledger.alive.fetch_add(1, Ordering::Relaxed);
        let plan = plan.clone();
        Self { plan, id, depth: 0, group: None, may_end: false }
    }

    fn child(&self, number: u64) -> Self {
        let group = self.group.clone();
        if let Some(group) = &group {
            group.fetch_add(1, Ordering::Relaxed);
        }
        let mut child = Self::root(&self.plan, self.id.wrapping_mul(31).wrapping_add(number + 1));
        child.depth = self.depth + 1;
        child.may_end = self.may_end;
        child.group = group;
        child
    }

    /// Calls operation `number` on a random stage and processor.
    fn call(&self, rng: &mut Rng, number: u64) -> (u64, Call<u64>) {
        let stage = self.plan.stages[rng.usize(..self.plan.stages.len())];
        let (key, target) = (rng.u64(..), rng.usize(..self.plan.processors));
        if let Stage::Shared(stage) = stage
            && rng.bool()
        {
            let child = self.child(number);
            let call = |child: Self| {
                stage.call_on(target, move |count| {
                    count.fetch_add(1, Ordering::Relaxed);
                    child.run()
                })
            };
            return (child.id, call(child));
        }
        let child = self.child(number);
        (child.id, child.invoke(stage, key))
    }

    fn invoke(self, stage: Stage, key: u64) -> Call<u64> {
        match stage {
            Stage::Shared(stage) => stage.call(move |count| {
                count.fetch_add(1, Ordering::Relaxed);
                self.run()
            }),
            Stage::Partitioned(stage) => stage.call(key, move |state| async move {
                state.with(|count| *count += 1);
                let id = self.run().await;
                state.with(|count| *count += 1);
                id
            }),
            Stage::Balanced(stage) => stage.call(move |count| {
                count.fetch_add(1, Ordering::Relaxed);
                self.run()
            }),
            Stage::Exclusive(stage) => stage.call(move |state| async move {
                state.with(|count| *count += 1);
                let id = self.run().await;
                state.with(|count| *count += 1);
                id
            }),
        }
    }

    /// Records a fault if this result is impossible.
    fn check(&self, id: u64, answer: Result<u64, CallError>) {
        let Plan { panics, may_be_full, ledger, .. } = &*self.plan;
        let may_be = match &answer {
            Ok(answer) => *answer == id,
            Err(CallError::Panicked { .. }) => *panics,
            Err(CallError::Full { .. }) => *may_be_full,
            // A child on another processor that was rejected for lack of space is ended, too.
            Err(CallError::Cancelled) => self.may_end || *may_be_full,
            Err(_) => false,
        };
        ledger.expect(may_be, || format!("{} heard of {id}: {answer:?}", self.id));
    }

    fn run(self) -> Pin<Box<dyn Future<Output = u64>>> {
        *self.plan.ledger.started.lock().unwrap().entry(self.id).or_default() += 1;
        Box::pin(async move {
            let mut rng = Rng::with_seed(self.id);
            let actions = if self.depth < 4 { rng.usize(..4) } else { 0 };
            for number in 0..actions as u64 * 10 {
                if number % 10 == 0 {
                    self.act(&mut rng, number).await;
                }
            }
            sim::fault_point("at the end");
            self.id
        })
    }

    async fn act(&self, rng: &mut Rng, number: u64) {
        match rng.u8(..11) {
            0 | 1 => {
                let (id, call) = self.call(rng, number);
                self.check(id, call.await);
            }
            2 => {
                let calls = (0..rng.u64(1..4)).map(|n| self.call(rng, number + n));
                let (ids, calls): (Vec<_>, Vec<_>) = calls.unzip();
                for (id, answer) in ids.into_iter().zip(join(calls).await) {
                    self.check(id, answer);
                }
            }
            3 => {
                let ((one, call), (other, another)) =
                    (self.call(rng, number), self.call(rng, number + 1));
                let (first, second) = join((call, another)).await;
                self.check(one, first);
                self.check(other, second);
            }
            4 => sleep(Duration::from_millis(rng.u64(..5))).await,
            5 => yield_now().await,
            6 => {
                sim::fault_point("in the middle");
                yield_now().await;
                sim::fault_point("after a pause");
            }
            // A call that nobody awaits.
            7 => drop(self.call(rng, number)),
            8 => {
                let (id, call) = self.call(rng, number);
                if let Ok(answer) = timeout(Duration::from_millis(rng.u64(..4)), call).await {
                    self.check(id, answer);
                }
            }
            9 => {
                let (sender, receiver) = oneshot::local();
                let (id, call) = self.call(rng, number);
                let late = async {
                    sleep(Duration::from_millis(1)).await;
                    sender.send(7);
                };
                late.await;
                let value = receiver.await;
                self.plan
                    .ledger
                    .expect(value == Some(7), || format!("a receiver returned {value:?}"));
                self.check(id, call.await);
            }
            _ => self.group(rng, number).await,
        }
    }

    /// A session whose operations are ended while they run.
    async fn group(&self, rng: &mut Rng, number: u64) {
        let Some(Stage::Shared(stage)) = self.plan.stages.first().copied() else { return };
        let (session, members) = (Session::new(), Arc::new(AtomicUsize::new(0)));
        for n in 0..rng.u64(1..4) {
            let mut member = self.child(number + n);
            if let Some(outer) = member.group.replace(members.clone()) {
                outer.fetch_sub(1, Ordering::Relaxed);
            }
            member.may_end = true;
            members.fetch_add(1, Ordering::Relaxed);
            let _ = session.scope(|| {
                stage.dispatch(move |_| async move {
                    member.run().await;
                })
            });
        }
        if rng.bool() {
            sleep(Duration::from_millis(rng.u64(..3))).await;
        }
        session.end().await;
        let left = (session.operations(), members.load(Ordering::Relaxed));
        self.plan.ledger.expect(left == (0, 0), || format!("an ended session has {left:?}"));
    }
}

/// A program with random stages and work.
fn program(world: &mut World, ledger: &Arc<Ledger>) {
    let mut graph = Graph::new();
    let mut stages = Vec::new();
    for name in ["first", "second", "third", "fourth"].into_iter().take(world.draw(4) as usize + 1)
    {
        let mut options = graph.stage(name).max_cohort([1, 3, 256][world.draw(3) as usize]);
        if world.draw(4) == 0 {
            options = options.lifo();
        }
        let policy = if stages.is_empty() { 0 } else { world.draw(5) };
        stages.push(match policy {
            0 => Stage::Shared(options.shared(AtomicU64::new(0))),
            1 => Stage::Partitioned(options.partitioned(|_| 0)),
            2 => Stage::Exclusive(options.exclusive(0)),
            3 => Stage::Partitioned(options.migrating(|_| 0)),
            _ => Stage::Balanced(options.balanced(AtomicU64::new(0))),
        });
    }
    let panics = world.draw(3) == 0;
    world.set_panics(if panics { 50 } else { 0 });
    let may_be_full = world.draw(6) == 0;
    if may_be_full {
        graph.max_operations(6);
    }
    let (processors, ledger) = (world.processors(), ledger.clone());
    let plan = Arc::new(Plan { stages, processors, panics, may_be_full, ledger });
    let (first, roots) = (world.draw(u64::MAX), world.draw(4) + 1);
    world.program(graph, move |start| {
        for number in 0..roots {
            let id = first.wrapping_add(1000 * start.processor() as u64 + number);
            let stage = plan.stages[id as usize % plan.stages.len()];
            let _ = Work::root(&plan, id).invoke(stage, id).detach();
        }
        Ok(())
    });
}

#[test]
fn programs_come_to_rest_and_run_everything_once() {
    let worked = AtomicUsize::new(0);
    sim::explore_each(2000, |seed| {
        let ledger = Arc::new(Ledger::default());
        sim::run(seed, |world| program(world, &ledger));
        let faults = ledger.faults.lock().unwrap();
        assert!(faults.is_empty(), "with seed {seed}: {faults:?}");
        assert_eq!(ledger.alive.load(Ordering::Relaxed), 0, "with seed {seed}: never dropped");
        let started = ledger.started.lock().unwrap();
        worked.fetch_add(started.len(), Ordering::Relaxed);
        let twice = started.iter().find(|(_, times)| **times > 1);
        assert!(twice.is_none(), "with seed {seed}: {twice:?}");
    });
    println!("{} operations", worked.into_inner());
}

/// A fault point does not panic in the start of the world's program, or of a program that a client starts.
#[test]
fn starts_do_not_panic() {
    sim::explore(20, |world| {
        let start = |_: &phalanx::runtime::StartContext| {
            (0..100).for_each(|_| sim::fault_point("start"));
            Ok(())
        };
        world.set_panics(500);
        world.program(Graph::new(), start);
        let net = world.net();
        world.client(async move {
            net.start(1, Graph::new(), start).drain().await;
        });
    });
}

/// The destructors of a killed program neither change a file nor send anything.
#[test]
fn a_killed_program_cleans_nothing_up() {
    struct WritesOnDrop(phalanx::fs::Dir, Option<phalanx::net::Polled>);
    impl Drop for WritesOnDrop {
        fn drop(&mut self) {
            let removed = self.0.remove(b"lock");
            assert!(removed.is_err() || phalanx::shutdown::is_draining());
            if let Some(stream) = &mut self.1 {
                let part = [std::io::IoSlice::new(b"goodbye")];
                let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
                let _ = phalanx::net::PollStream::poll_write(stream, context, &part);
            }
        }
    }
    sim::explore(20, |world| {
        world.program(Graph::new(), |_| Ok(()));
        let (net, address) = (world.net(), "10.0.0.1:80".parse().unwrap());
        world.set_faults(sim::Faults { immediate: 1000, ..sim::Faults::NONE });
        world.client(async move {
            for kills in [true, false] {
                net.write_file("home/lock", b"held".to_vec());
                let (mut graph, directory) = (Graph::new(), net.directory("home"));
                let stage = graph.shared("stage", ());
                let listeners = net.listen(address, 1);
                let program = net.start(1, graph, move |start| {
                    let (listener, directory) = (listeners.listener(start)?, directory.clone());
                    stage.dispatch(move |_| async move {
                        let stream = phalanx::net::Polled::new(listener.accept().await.unwrap());
                        let _held = WritesOnDrop(directory, Some(stream));
                        phalanx::shutdown::draining().await;
                    })?;
                    Ok(())
                });
                let mut client = loop {
                    match net.connect(address).await {
                        Ok(client) => break client,
                        Err(_) => net.sleep(Duration::from_micros(10)).await,
                    }
                };
                net.sleep(Duration::from_secs(1)).await;
                match kills {
                    true => program.kill().await,
                    false => program.drain().await,
                }
                let mut received = Vec::new();
                while let Ok(1..) = client.read(&mut received).await {}
                assert_eq!(received.is_empty(), kills, "{received:?}");
                assert_eq!(net.remove_file("home/lock"), kills);
            }
        });
    });
}
