//! Fibres among asynchronous operations in simulation.

use std::cell::Cell;
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use phalanx::fibre::sync::{Mutex, channel};
use phalanx::fibre::{Fibre, LocalFibres, net::Stream};
use phalanx::net::IoTimeout;
use phalanx::sim::{self, Faults, World};
use phalanx::{Graph, Session, SharedStage, sleep};

/// Answers each line with its length and the number of lines so far, which an asynchronous operation counts.
fn serve(
    stream: &Stream,
    count: SharedStage<Mutex<u32>>,
    fibre: &Fibre<'_>,
) -> std::io::Result<()> {
    stream.set_read_timeout(IoTimeout::NONE.until_shutdown());
    for line in BufReader::new(stream).lines() {
        let line = line?;
        let counted = count.call(|_| async { sleep(Duration::from_micros(100)).await });
        fibre.wait(counted).map_err(std::io::Error::other)?;
        let all = fibre.wait(count.fibre(|count, fibre| {
            let mut count = count.lock().unwrap();
            fibre.sleep(Duration::from_millis(1));
            *count += 1;
        }));
        all.map_err(std::io::Error::other)?;
        writeln!(&mut &*stream, "{}", line.len())?;
    }
    Ok(())
}

fn world_of_lines(world: &mut World) {
    let address = SocketAddr::from(([10, 0, 0, 1], 7));
    let mut graph = Graph::new();
    let clients = graph.shared("clients", ());
    let count = graph.shared("count", Mutex::new(0));
    let listeners = world.listen(address);
    world.set_faults(Faults::random(world.seed()));
    world.program(graph, move |start| {
        let listener = listeners.listener(start)?;
        clients.dispatch(move |_| {
            listener.accept_each(move |stream| {
                let serving = clients.fibre(move |_, fibre| serve(&stream.into(), count, fibre));
                let _ = serving.detach();
            })
        })?;
        Ok(())
    });
    for _ in 0..3 {
        let net = world.net();
        world.client(async move {
            // The network may fail, but it delivers only correct data.
            let Ok(mut client) = net.connect(address).await else { return };
            for _ in 0..net.draw(5) {
                let length = net.draw(2000) as usize;
                let line = format!("{}\n", "x".repeat(length));
                if client.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
                let mut answer = Vec::new();
                while !answer.ends_with(b"\n") {
                    let Ok(1..) = client.read(&mut answer).await else { return };
                }
                assert_eq!(answer, format!("{length}\n").into_bytes());
            }
        });
    }
}

#[test]
fn the_same_seed_goes_the_same_way() {
    let mut traces = HashSet::new();
    for seed in 0..40 {
        let once = sim::run(seed, world_of_lines);
        assert_eq!(once, sim::run(seed, world_of_lines), "with seed {seed}");
        traces.insert(once.trace);
    }
    assert_eq!(traces.len(), 40, "other seeds go other ways");
}

/// Counted while it exists.
struct Alive(Rc<Cell<i32>>);

impl Alive {
    fn new(count: &Rc<Cell<i32>>) -> Self {
        count.set(count.get() + 1);
        Self(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Sessions of fibres and operations that wait for each other end at any moment, and nothing of them is left.
#[test]
fn sessions_of_fibres_end_at_any_moment() {
    sim::explore(300, |world| {
        world.set_processors(1);
        let mut graph = Graph::new();
        let stage = graph.shared("stage", ());
        let net = world.net();
        let done = Rc::new(Cell::new(false));
        let ended = done.clone();
        world.program(graph, move |_| {
            let (net, done) = (net.clone(), done.clone());
            stage.dispatch(move |_| async move {
                let alive = Rc::new(Cell::new(0));
                for _ in 0..5 {
                    let session = Session::new();
                    session.scope(|| mixed_operations(stage, &alive));
                    sleep(Duration::from_millis(net.draw(12))).await;
                    session.end().await;
                    assert_eq!(alive.get(), 0);
                }
                done.set(true);
            })?;
            Ok(())
        });
        let net = world.net();
        world.client(async move {
            for _ in 0..1000 {
                if ended.get() {
                    return;
                }
                net.sleep(Duration::from_millis(10)).await;
            }
            panic!("an operation has panicked, or waits");
        });
    });
}

/// Producers and consumers, some of them fibres, which share a lock.
fn mixed_operations(stage: SharedStage<()>, alive: &Rc<Cell<i32>>) {
    let lock = Rc::new(Mutex::new(()));
    let (sender, receiver) = channel(2);
    for n in 0..4u64 {
        let (lock, sender, count) = (lock.clone(), sender.clone(), alive.clone());
        let producer = stage.fibre(move |_, fibre| {
            let _alive = Alive::new(&count);
            for m in 0..5 {
                let Ok(_guard) = lock.lock() else { return };
                let _inner = Alive::new(&count);
                fibre.sleep(Duration::from_millis(1));
                let child = {
                    let count = count.clone();
                    fibre.spawn(move |fibre| {
                        let _alive = Alive::new(&count);
                        fibre.sleep(Duration::from_millis(n));
                        n * m
                    })
                };
                let Ok(product) = fibre.wait(child) else { return };
                if sender.send(product).is_err() {
                    return;
                }
            }
        });
        producer.detach().unwrap();
    }
    drop(sender);
    let count = alive.clone();
    let consumer = stage.fibre(move |_, fibre| {
        let _alive = Alive::new(&count);
        for product in receiver.iter() {
            let squared = stage.call(move |_| async move {
                sleep(Duration::from_millis(1)).await;
                product * product
            });
            let Ok(squared) = fibre.wait(squared) else { return };
            assert_eq!(squared, product * product);
        }
    });
    consumer.detach().unwrap();
}
