//! Random programs that are drained or ended at random moments end in bounded time and leak nothing: no
//! operation, timer, request, buffer or captured value.

use std::io::Write;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use phalanx::blocking::{BlockingStage, blocking};
use phalanx::fs::Dir;
use phalanx::net::{IoTimeout, Stream};
use phalanx::runtime::{Control, DriverChoice};
use phalanx::shutdown::draining;
use phalanx::sync::oneshot;
use phalanx::{
    ExclusiveStage, Graph, PartitionedStage, Session, SharedStage, join, select, sleep, timeout,
    yield_now,
};

use phalanx_testkit::TIMEOUT;
use phalanx_testkit::tcp::listener;

use crate::runtime::harness::runtime;
use crate::runtime::on_each_driver;

on_each_driver!(ended_at_random, a_leak_is_seen);

/// A small random number generator. The failure message contains the seed.
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let hash = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (hash ^ (hash >> 31)) % bound
    }

    fn split(&mut self) -> Self {
        Self(self.below(u64::MAX))
    }
}

/// Counts live instances.
struct Alive(Arc<AtomicUsize>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The resources that an operation may use.
#[derive(Clone)]
struct Resources {
    shared: SharedStage<()>,
    partitioned: PartitionedStage<u32>,
    exclusive: ExclusiveStage<u32>,
    slow: BlockingStage<()>,
    peer: SocketAddr,
    dir: Dir,
    senders: Arc<Mutex<Vec<oneshot::Sender<u32>>>>,
    alive: Arc<AtomicUsize>,
}

impl Resources {
    fn alive(&self) -> Alive {
        self.alive.fetch_add(1, Ordering::SeqCst);
        Alive(self.alive.clone())
    }
}

/// A random action with its consequences; some never end.
fn life(
    resources: Resources,
    mut random: Random,
    depth: u32,
) -> Pin<Box<dyn Future<Output = u64>>> {
    let alive = resources.alive();
    Box::pin(async move {
        let _alive = alive;
        for _ in 0..=random.below(3) {
            step(&resources, &mut random, depth).await;
        }
        random.below(100)
    })
}

async fn step(resources: &Resources, random: &mut Random, depth: u32) {
    let kinds = if depth == 0 { 9 } else { 15 };
    let (next, key) = (random.split(), random.below(100));
    let child = || {
        let (resources, next) = (resources.clone(), next.clone());
        move || life(resources, next, depth - 1)
    };
    match random.below(kinds) {
        0 => sleep(Duration::from_micros(random.below(4000))).await,
        1 => sleep(100 * TIMEOUT).await,
        2 => yield_now().await,
        3 => draining().await,
        4 => _ = file(resources, key).await,
        5 => {
            _ = timeout(Duration::from_micros(random.below(3000)), connection(resources, key)).await
        }
        6 => _ = connection(resources, key).await,
        7 => {
            let (sender, receiver) = oneshot::shared();
            resources.senders.lock().unwrap().push(sender);
            let _ = receiver.await;
        }
        8 => {
            let (alive, time) = (resources.alive(), Duration::from_micros(random.below(2000)));
            let call = resources.slow.call(move |()| {
                let _alive = alive;
                thread::sleep(time);
            });
            if key < 50 {
                let _ = call.await;
            } else {
                let _ = timeout(time / 2, call).await;
            }
        }
        9 => {
            _ = resources
                .shared
                .call({
                    let child = child();
                    move |_| child()
                })
                .await
        }
        10 => {
            _ = resources
                .partitioned
                .call(key, {
                    let child = child();
                    move |_| child()
                })
                .await
        }
        11 => {
            _ = resources
                .exclusive
                .call({
                    let child = child();
                    move |_| child()
                })
                .await
        }
        12 => {
            let calls = (0..3).map(|n| {
                let child = child();
                resources.partitioned.call(key + n, move |_| child())
            });
            let _ = join(calls.collect::<Vec<_>>()).await;
        }
        13 => {
            let session = Session::new();
            for _ in 0..3 {
                let child = child();
                let _ = session.scope(|| {
                    resources.shared.dispatch(move |_| async move {
                        child().await;
                    })
                });
            }
            sleep(Duration::from_micros(random.below(3000))).await;
            session.end().await;
        }
        _ => {
            let (sender, receiver): (oneshot::LocalSender<u32>, oneshot::LocalReceiver<u32>) =
                oneshot::local();
            let child = child();
            let sending = resources.shared.call(move |_| async move {
                child().await;
                sender.send(1);
            });
            let _ = select(receiver, sending).await;
        }
    }
}

/// Writes and reads a file.
async fn file(resources: &Resources, key: u64) -> std::io::Result<()> {
    let file = resources.dir.create(format!("{}", key % 5).as_bytes(), false).await?;
    file.write_at(key * 1000, vec![7; 100_000]).await?;
    if key.is_multiple_of(4) {
        file.sync_data().await?;
    }
    file.read_at(0, 50_000).await.map(drop)
}

/// Sends some bytes, then waits forever.
async fn connection(resources: &Resources, key: u64) -> std::io::Result<()> {
    let stream = Stream::connect(resources.peer, IoTimeout::NONE).await?;
    let mut input = Vec::new();
    let timeout = match key % 3 {
        0 => IoTimeout::NONE,
        1 => IoTimeout::NONE.until_shutdown(),
        _ => IoTimeout::after(Duration::from_millis(key)),
    };
    while stream.read(&mut input, timeout).await? > 0 {}
    Ok(())
}

/// Fills a program with random operations, ends it at a random moment, and checks for leaks.
fn round(driver: DriverChoice, seed: u64) {
    let mut random = Random(seed);
    let (listener, peer) = listener();
    let server = thread::spawn(move || {
        let mut clients = Vec::new();
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let _ = client.write_all(&[1; 5000]);
            // The last client sends a byte.
            let mut byte = [0];
            client.set_nonblocking(true).unwrap();
            if matches!(client.peek(&mut byte), Ok(1)) {
                break;
            }
            clients.push(client);
        }
    });
    let home = tempfile::tempdir().unwrap();
    let mut graph = Graph::new();
    let resources = Resources {
        shared: graph.shared("shared", ()),
        partitioned: graph.partitioned("partitioned", |_| 0),
        exclusive: graph.exclusive("exclusive", 0),
        slow: blocking(&mut graph, "slow").threads(2).queue(8).state(()),
        peer,
        dir: Dir::open(home.path()).unwrap(),
        senders: Arc::default(),
        alive: Arc::default(),
    };
    let drain = Duration::from_millis(random.below(40));
    let delay = Duration::from_micros(random.below(40_000));
    let end_program: fn(&Control) =
        if random.below(2) == 0 { Control::drain } else { Control::end };
    let seeds = Mutex::new(random.clone());
    let mut start = None;
    let ended = runtime(driver, 2).shutdown_timeout(drain).run_with_ready(
        graph,
        |start| {
            for _ in 0..30 {
                let seed = seeds.lock().unwrap().split();
                let life = life(resources.clone(), seed, 3);
                resources.shared.dispatch(move |_| async move { _ = life.await })?;
            }
            // A thread sends the values that operations await.
            let senders = resources.senders.clone();
            if start.processor() == 0 {
                resources.shared.dispatch(move |_| async move {
                    loop {
                        sleep(Duration::from_millis(1)).await;
                        let sender = senders.lock().unwrap().pop();
                        sender.into_iter().for_each(|sender| sender.send(1));
                    }
                })?;
            }
            Ok(())
        },
        |up| {
            thread::sleep(delay);
            end_program(&up.control);
            start = Some(Instant::now());
        },
    );
    let ended = ended.unwrap_or_else(|error| panic!("seed {seed:#x}: {error}"));
    let elapsed = start.expect("it was up").elapsed();
    assert!(elapsed < TIMEOUT / 2, "seed {seed:#x}: the end took {elapsed:?}");
    assert_eq!(ended.processors.len(), 2);
    assert!(ended.is_clean(), "seed {seed:#x}: {ended:?}");
    resources.senders.lock().unwrap().clear();
    assert_eq!(resources.alive.load(Ordering::SeqCst), 0, "seed {seed:#x}: some still live");
    // The server may check before the byte arrives; then it reads the next one's.
    while !server.is_finished() {
        if let Ok(mut client) = std::net::TcpStream::connect(peer) {
            let _ = client.write_all(b"!");
        }
        thread::sleep(Duration::from_millis(1));
    }
    server.join().unwrap();
}

fn ended_at_random(driver: DriverChoice) {
    let rounds = std::env::var("PHALANX_LIVES").ok().and_then(|rounds| rounds.parse().ok());
    let first = Random(std::process::id().into()).split().0;
    for seed in 0..rounds.unwrap_or(12) {
        round(driver, first ^ seed);
    }
}

/// The report is not constant: a leaked future leaves its timer armed.
fn a_leak_is_seen(driver: DriverChoice) {
    let mut graph = Graph::new();
    let stage = graph.shared("test", ());
    let ended = runtime(driver, 1).run(graph, |start| {
        let control = start.control();
        stage.dispatch(move |_| async move {
            let mut leaked = Box::pin(sleep(100 * TIMEOUT));
            let _ = timeout(Duration::from_millis(1), &mut leaked).await;
            std::mem::forget(leaked);
            control.drain();
        })?;
        Ok(())
    });
    let ended = ended.unwrap();
    assert_eq!(ended.processors[0].timers, 1);
    assert!(!ended.is_clean());
}
