//! Clients that publish one event after another.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use phalanx::net::{IoTimeout, Payload, Stream};
use phalanx::{Graph, Runtime, join};

use super::{ANSWER, EVENT};
use crate::system::cores::bound;

/// Timeout of an answer.
const READ_TIMEOUT: IoTimeout = IoTimeout::after(Duration::from_secs(20));

/// Results of the clients.
pub(super) struct Found {
    /// Nanoseconds from an event to its answer.
    times: Histogram<u64>,
    seconds: f64,
}

impl Found {
    pub(super) fn mean_us(&self) -> f64 {
        self.times.mean() / 1e3
    }

    pub(super) fn p99_us(&self) -> f64 {
        self.times.value_at_quantile(0.99) as f64 / 1e3
    }

    pub(super) fn count(&self) -> usize {
        self.times.len() as usize
    }

    pub(super) fn rate(&self) -> f64 {
        self.times.len() as f64 / self.seconds
    }
}

fn times() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("valid bounds")
}

/// Runs clients on `cores` for about a slice; each publishes its next event when it has the answer to the last
/// one.
pub(super) fn load(
    cores: &[usize],
    server: SocketAddr,
    clients: usize,
    events: &'static [[u8; EVENT]],
    slice: Duration,
) -> io::Result<Found> {
    let mut graph = Graph::new();
    let stage = graph.stage("clients").shared(());
    let results: Arc<Mutex<Vec<io::Result<Histogram<u64>>>>> = Arc::default();
    let noted = results.clone();
    let began = Instant::now();
    let start = move |start: &phalanx::runtime::StartContext| {
        let (control, noted) = (start.control(), noted.clone());
        stage.dispatch(move |_| async move {
            let calls: Vec<_> = (0..clients)
                .map(|client| {
                    let from = client * events.len() / clients;
                    stage.call(move |_| publish(server, events, from, began + slice))
                })
                .collect();
            for result in join(calls).await {
                let result = result.unwrap_or_else(|error| Err(io::Error::other(error)));
                noted.lock().expect("no panic").push(result);
            }
            control.drain();
        })?;
        Ok(())
    };
    let runtime = Runtime::new().processors(1).signals(false);
    bound(cores, || runtime.run(graph, start))?.map_err(io::Error::other)?;
    let seconds = began.elapsed().as_secs_f64();
    let mut all = times();
    for result in results.lock().expect("no panic").drain(..) {
        all.add(result?).map_err(io::Error::other)?;
    }
    Ok(Found { times: all, seconds })
}

/// One client.
async fn publish(
    server: SocketAddr,
    events: &'static [[u8; EVENT]],
    from: usize,
    until: Instant,
) -> io::Result<Histogram<u64>> {
    let stream = Stream::connect(server, READ_TIMEOUT).await?;
    let mut times = times();
    let (mut head, mut answer) = (Vec::with_capacity(EVENT), Vec::with_capacity(ANSWER));
    for event in events.iter().cycle().skip(from) {
        let asked = Instant::now();
        // Publish at least once, even if the slice is already over on a busy machine.
        if asked >= until && !times.is_empty() {
            break;
        }
        head.extend_from_slice(event);
        head = stream.write(Payload { head, ..Payload::default() }, READ_TIMEOUT).await?;
        answer.clear();
        while answer.len() < ANSWER {
            if stream.read(&mut answer, READ_TIMEOUT).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        times.saturating_record(asked.elapsed().as_nanos() as u64);
    }
    Ok(times)
}
