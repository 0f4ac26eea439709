//! The staged server. Its connections call the stages of `phalanx_matching`, or, where each processor owns a part of the
//! subscriptions, a stage with a cohort of events on every processor.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::channel;

use phalanx::net::{IoTimeout, Listener, Listeners, Payload, Stream};
use phalanx::runtime::{Control, DriverChoice, StartContext};
use phalanx::shutdown::is_draining;
use phalanx::stage::{Cohort, CohortStage};
use phalanx::{CallError, Graph, Runtime, SharedStage};
use phalanx_matcher::{Event, Matches, Snapshot};
use phalanx_matching::{Matching, Options};

use super::arm::Running;
use super::{ANSWER, Coder, EVENT};
use crate::system::Bound;

type Bytes = [u8; EVENT];

/// Largest cohort of events on a processor that owns a part of the subscriptions, as of `phalanx_matching`.
const MAX_COHORT: usize = 4096;

/// Which subscriptions a processor matches with.
pub(super) enum Division {
    /// All. At most so many events, if given, are matched together.
    Whole(Snapshot, Option<usize>),
    /// A part for each processor, as in the paper's SSPS.
    Parts(Vec<Snapshot>),
}

/// The stages that match.
#[derive(Clone, Copy)]
enum Stages {
    Whole(Matching<Bytes>),
    Parts(CohortStage<Bytes, u32>, usize),
}

/// Listens on a free port, with all threads on `cores`.
pub(super) fn start(
    cores: &[usize],
    processors: usize,
    driver: DriverChoice,
    division: Division,
) -> io::Result<Running> {
    let listeners = Listeners::bind(SocketAddr::from(([127, 0, 0, 1], 0)), processors)?;
    let address = listeners.local_addr();
    let (tell, told) = channel();
    let _bound = Bound::to(cores)?;
    let thread = std::thread::spawn(move || {
        let runtime = Runtime::new().processors(processors).driver(driver).signals(false);
        serve(&listeners, runtime, division, |up| {
            let _ = tell.send(up);
        })
    });
    match told.recv() {
        Ok(control) => {
            let end = Box::new(move || {
                control.drain();
                let ended = thread.join().expect("it does not panic");
                ended.expect("a final newline");
            });
            Ok(Running { address, end })
        }
        Err(_) => Err(thread
            .join()
            .expect("it does not panic")
            .err()
            .unwrap_or_else(|| io::Error::other("the staged server did not start"))),
    }
}

fn serve(
    listeners: &Listeners,
    runtime: Runtime,
    division: Division,
    up: impl FnOnce(Control),
) -> io::Result<()> {
    let mut graph = Graph::new();
    let clients = graph.stage("clients").max_cohort(64).shared(());
    let (stages, snapshot) = Stages::declare(&mut graph, division);
    let start = |start: &StartContext| {
        let (listener, snapshot) = (listeners.listener(start)?, snapshot.clone());
        clients.dispatch(move |_| async move {
            // Clients that connect earlier wait, so that no answer comes from an empty index.
            if stages.publish(snapshot).await.is_ok() {
                accept(listener, clients, stages).await;
            }
        })?;
        Ok(())
    };
    runtime
        .run_with_ready(graph, start, |ready| up(ready.control.clone()))
        .map_err(io::Error::other)?;
    Ok(())
}

impl Stages {
    /// Declares them. The snapshot is to be published.
    fn declare(graph: &mut Graph, division: Division) -> (Self, Option<Snapshot>) {
        match division {
            Division::Whole(snapshot, cohort) => {
                let own = Options::default();
                let options = Options { capacity: cohort.unwrap_or(own.capacity), ..own };
                let coder = Coder::new(&snapshot);
                let code = move |bytes: &Bytes, now: &Snapshot| coder.code(now, bytes);
                (Self::Whole(Matching::declare(graph, options, code)), Some(snapshot))
            }
            Division::Parts(parts) => {
                let processors = parts.len();
                let make = move |processor: usize| Part::new(parts[processor].clone());
                let stage = graph.stage("part").max_cohort(MAX_COHORT).cohort(make, Part::answer);
                (Self::Parts(stage, processors), None)
            }
        }
    }

    async fn publish(self, snapshot: Option<Snapshot>) -> Result<(), CallError> {
        match (self, snapshot) {
            (Self::Whole(matching), Some(snapshot)) => matching.publish(&snapshot).await,
            _ => Ok(()),
        }
    }

    /// Appends an answer to each event. All events are called before the first answer is awaited.
    async fn ask(self, events: &[Bytes], answers: &mut Vec<u8>) -> Result<(), CallError> {
        match self {
            Self::Whole(matching) => {
                let calls: Vec<_> = events.iter().map(|event| matching.call(*event)).collect();
                for call in calls {
                    answers.extend((call.await?.subscriptions.len() as u32).to_le_bytes());
                }
            }
            Self::Parts(stage, processors) => {
                let each = |event: &Bytes| {
                    let event = *event;
                    (0..processors).map(move |processor| stage.call_on(processor, event))
                };
                let mut calls = events.iter().flat_map(each).collect::<Vec<_>>().into_iter();
                for _ in events {
                    let mut all = 0;
                    for call in calls.by_ref().take(processors) {
                        all += call.await?;
                    }
                    answers.extend(all.to_le_bytes());
                }
            }
        }
        Ok(())
    }
}

/// The subscriptions of one processor.
struct Part {
    snapshot: Snapshot,
    coder: Coder,
    events: Vec<Event>,
    matches: Matches,
    counts: Vec<u32>,
}

impl Part {
    fn new(snapshot: Snapshot) -> Self {
        let (events, matches, counts) = (Vec::new(), Matches::new(), Vec::new());
        Self { coder: Coder::new(&snapshot), snapshot, events, matches, counts }
    }

    /// Answers a cohort of events with their numbers of satisfied subscriptions.
    fn answer(&mut self, cohort: &mut Cohort<Bytes, u32>) {
        let Self { snapshot, coder, events, matches, counts } = self;
        events.clear();
        events.extend(cohort.iter().map(|entry| coder.code(snapshot, &entry.item)));
        matches.clear();
        snapshot.match_cohort(events, matches);
        counts.clear();
        counts.resize(events.len(), 0);
        for found in matches.all() {
            counts[found.event as usize] += 1;
        }
        for (entry, count) in cohort.iter_mut().zip(&*counts) {
            entry.reply(*count);
        }
    }
}

async fn accept(listener: Listener, clients: SharedStage<()>, stages: Stages) {
    while !is_draining() {
        if let Ok(stream) = listener.accept().await {
            let _ = clients.dispatch(move |_| async move {
                // Disconnects of clients are expected.
                let _ = client(stream, stages).await;
            });
        }
    }
}

/// Serves one client.
async fn client(stream: Stream, stages: Stages) -> io::Result<()> {
    let timeout = IoTimeout::NONE.until_shutdown();
    let (mut input, mut head) = (Vec::new(), Vec::with_capacity(ANSWER));
    while stream.read(&mut input, timeout).await? > 0 {
        let (events, rest) = input.as_chunks::<EVENT>();
        stages.ask(events, &mut head).await.map_err(io::Error::other)?;
        input.drain(..input.len() - rest.len());
        if !head.is_empty() {
            let payload = Payload { head, ..Payload::default() };
            head = stream.write(payload, timeout).await?;
        }
    }
    Ok(())
}
