//! Connections that pass on a state whose destructor panics, while listeners drop accepts and close.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use phalanx::net::{IoTimeout, Listener, Stream};
use phalanx::sim::{self, Faults, Net};
use phalanx::task::{Either, select};
use phalanx::{Graph, SharedStage, sleep};

use super::{SEEDS, address};

const CLIENTS: u64 = 8;
const ROUNDS: usize = 8;

#[derive(Default)]
struct Counts {
    passed: AtomicUsize,
    taken: AtomicUsize,
    lost: AtomicUsize,
    /// Clients that have ended.
    ended: AtomicUsize,
}

/// The state of a connection. Its destructor panics unless an operation has taken it.
struct Passed {
    counts: Arc<Counts>,
    is_taken: bool,
}

impl Passed {
    fn new(counts: &Arc<Counts>) -> Self {
        counts.passed.fetch_add(1, Ordering::Relaxed);
        Self { counts: counts.clone(), is_taken: false }
    }

    fn take(mut self) {
        self.counts.taken.fetch_add(1, Ordering::Relaxed);
        self.is_taken = true;
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        if !self.is_taken {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
            panic!("hostile destructor");
        }
    }
}

/// Echoes. Offers the connection after each answer.
async fn echo(mut stream: Stream, counts: Arc<Counts>) {
    stream.take_state().into_iter().for_each(Passed::take);
    let mut bytes = Vec::new();
    while let Ok(1..) = stream.read(&mut bytes, IoTimeout::NONE.until_shutdown()).await {
        let Ok(sent) = stream.write(bytes, IoTimeout::NONE).await else { return };
        bytes = sent;
        if stream.offer_with(|| Passed::new(&counts)) {
            return;
        }
    }
}

/// Accepts `accepts` connections. While there are clients, drops many accepts, even for connections that have arrived.
async fn serve(
    stage: SharedStage<()>,
    listener: Listener,
    mut accepts: usize,
    counts: Arc<Counts>,
) {
    while accepts > 0 {
        let is_over = counts.ended.load(Ordering::Relaxed) == CLIENTS as usize;
        let wait = if is_over { Duration::MAX } else { Duration::from_millis(1) };
        match select(sleep(wait), listener.accept()).await {
            Either::Left(()) => (),
            Either::Right(Err(_)) => return,
            Either::Right(Ok(stream)) => {
                let counts = counts.clone();
                stage.dispatch(move |_| echo(stream, counts)).unwrap();
                accepts -= 1;
            }
        }
    }
}

async fn exchange(net: Net, number: u64) {
    net.sleep(Duration::from_millis(5 * number)).await;
    let Ok(mut client) = net.connect(address(0)).await else { return };
    for _ in 0..ROUNDS {
        let Ok(()) = client.write_all(b"?").await else { return };
        let Ok(1..) = client.read(&mut Vec::new()).await else { return };
        net.sleep(Duration::from_millis(3 + number)).await;
    }
}

#[test]
fn states_that_nobody_takes_end_alone() {
    let (lost, taken) = (Cell::new(0), Cell::new(0));
    sim::explore_each(SEEDS, |seed| {
        let counts = Arc::<Counts>::default();
        sim::run(seed, |world| {
            world.set_processors(2);
            world.set_faults(Faults::NONE);
            let listeners = world.listen(address(0));
            let mut graph = Graph::new();
            let stage = graph.shared("echo", ());
            let served = counts.clone();
            world.program(graph, move |start| {
                let listener = listeners.listener(start)?;
                let closes = start.processor() as u64 == seed % 2;
                let accepts = if closes { 2 + seed as usize % 5 } else { usize::MAX };
                let counts = served.clone();
                stage.dispatch(move |_| serve(stage, listener, accepts, counts))?;
                Ok(())
            });
            for number in 0..CLIENTS {
                let (net, counts) = (world.net(), counts.clone());
                world.client(async move {
                    exchange(net, number).await;
                    counts.ended.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        assert_eq!(count(&counts.passed), count(&counts.taken) + count(&counts.lost));
        lost.set(lost.get() + count(&counts.lost));
        taken.set(taken.get() + count(&counts.taken));
    });
    assert!(SEEDS < 100 || (lost.get() > 0 && taken.get() > 0), "{lost:?} lost, {taken:?} taken");
}
