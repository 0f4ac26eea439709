//! The lease and the stream of a journal, with a simulated NATS server.

mod adopting;
mod ending;
mod lease;
mod leases;
mod lost;
mod opening;
mod returning;
mod servers;
mod shutdown;
mod waiting;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::blocking::{BlockingStage, blocking};
use phalanx::net::{Bytes, Resolver};
use phalanx::time::now;
use phalanx::{Graph, SharedStage, sim, sleep};
use phalanx_nats::{Access, Client, Expected, JetStream, ModelServer, Options};
use phalanx_store::{LocalFuture, Mirror};

use crate::Broker;
use crate::cluster::adoption::watch::watch;
use crate::cluster_names::{BATCH, ClusterNames, JournalName, OPEN, SEAL};
use crate::config::Config;
use crate::context::Context;
use crate::kept::lease::Record;
use crate::kept::mirror::StreamMirror;
use crate::kept::state::Kept;
use crate::peers::Peers;

const JOURNAL: u64 = 7;

/// Maximum number of operations at once.
const MAX_OPERATIONS: usize = 10_000;

fn nats() -> SocketAddr {
    ([10, 0, 0, 9], 4222).into()
}

/// Another address of the server.
fn spare_address() -> SocketAddr {
    ([10, 0, 0, 10], 4222).into()
}

pub(super) fn config() -> Config {
    let mut config = Config::new();
    config.runtime.workers = 1;
    config.cluster.servers = vec![nats().to_string().parse().unwrap()];
    config.cluster.node = "a".into();
    config
}

pub(super) fn journal() -> JournalName {
    JournalName { node: "a".into(), id: JOURNAL }
}

/// A program that has a connection to NATS.
struct Program {
    context: Context,
    streams: JetStream,
    names: ClusterNames,
    stage: SharedStage<()>,
    files: (BlockingStage<()>, Resolver),
    server: ModelServer,
    net: sim::Net,
}

impl Program {
    /// A start of a node.
    fn kept(&self, start: &str) -> Arc<Kept> {
        Kept::new(&config().cluster, start, Peers::new("a").status.kept.clone())
    }

    /// A start of the journal's node, with its mirror.
    fn mirror(&self, start: &str) -> (Arc<Kept>, Rc<StreamMirror>) {
        let kept = self.kept(start);
        (kept.clone(), StreamMirror::start(kept, self.stage, self.files, false))
    }

    /// Like [`mirror`](Self::mirror), with a stream that has this number of batches of one byte.
    async fn stored_mirror(&self, start: &str, batches: u64) -> (Arc<Kept>, Rc<StreamMirror>) {
        let (kept, mirror) = self.mirror(start);
        assert_eq!(mirror.open(JOURNAL, 1, 1).await, Ok(1));
        for number in 1..=batches {
            mirror.append(number, Bytes::from(vec![7])).await.unwrap();
        }
        mirror.complete().await.unwrap();
        (kept, mirror)
    }

    /// Stores a lease of a journal for a node's start.
    async fn put_lease(&self, journal: &JournalName, record: &Record) {
        let payload = serde_json::to_vec(record).unwrap();
        let stored = self.streams.append(&self.names.lease(journal), Expected::Any, &payload);
        stored.await.unwrap();
    }

    /// Stores a lease of the journal that is not renewed, and its stream, with a batch unless that is empty. Returns the
    /// stream's name.
    async fn put_stream(&self, batch: &[u8]) -> String {
        let Self { streams, names, .. } = self;
        let stream = names.stream(&journal());
        streams.create(&names.leases()).await.unwrap();
        streams.create(&stream).await.unwrap();
        if !batch.is_empty() {
            let subject = names.subject(&journal(), BATCH);
            streams.append(&subject, Expected::Any, batch).await.unwrap();
        }
        self.put_lease(&journal(), &lease_of(&journal())).await;
        stream.name
    }

    /// Appends three messages, and removes the last one, as if no replica that answers had it yet. Returns its number.
    async fn put_missing(&self, stream: &str) -> u64 {
        self.put_all_but_open(stream, [SEAL, SEAL, OPEN]).await
    }

    /// Appends three messages, and removes the second. Returns the number of the last one.
    async fn put_gap(&self, stream: &str) -> u64 {
        self.put_all_but_open(stream, [SEAL, OPEN, SEAL]).await
    }

    /// Appends messages, and removes that of [`OPEN`].
    async fn put_all_but_open(&self, stream: &str, kinds: [&str; 3]) -> u64 {
        let mut last = 0;
        for kind in kinds {
            let subject = self.names.subject(&journal(), kind);
            last = self.streams.append(&subject, Expected::Any, b"").await.unwrap();
        }
        let missing = self.names.subject(&journal(), OPEN);
        self.streams.purge_subject(stream, &missing).await.unwrap();
        last
    }

    /// Starts to watch the leases as another node.
    fn start_watching(&self) -> Arc<Kept> {
        let kept = self.kept("2");
        kept.set_own_journal(JournalName { node: "b".into(), id: 1 });
        kept.open();
        let context = Context { kept: Some(kept.clone()), ..self.context.clone() };
        let client = self.streams.client().clone();
        self.stage.dispatch(move |_| watch(context, client)).unwrap();
        kept
    }

    /// The lease of the journal.
    async fn lease(&self) -> Option<(u64, Record)> {
        let subject = self.names.lease(&journal());
        let found = self.streams.last(&self.names.leases().name, &subject).await.unwrap()?;
        Some((found.number, serde_json::from_slice(&found.payload).unwrap()))
    }
}

/// Renews the lease of a node that watches the others, and waits.
async fn renew_and_wait(kept: &Kept) {
    kept.record_renewal(now());
    sleep(Duration::from_millis(100)).await;
}

fn lease_of(node: &JournalName) -> Record {
    Record { holder: node.to_string(), start: "1".into(), ..Record::default() }
}

/// Runs a test as an operation.
fn run(test: impl Fn(Program) -> LocalFuture<'static, ()> + Clone + 'static) {
    run_with(ModelServer::default(), test);
}

/// Runs a test with a server.
fn run_with(
    server: ModelServer,
    test: impl Fn(Program) -> LocalFuture<'static, ()> + Clone + 'static,
) {
    sim::run(0, move |world| {
        world.set_processors(1);
        world.advance_only_when_idle();
        let mut graph = Graph::new();
        graph.max_operations(MAX_OPERATIONS);
        let broker =
            Broker::declare(&mut graph, &Config { cluster: Default::default(), ..config() });
        let resolver = Resolver::declare(&mut graph);
        let files = (blocking(&mut graph, "files").threads(1).state(()), resolver);
        let stage = graph.stage("test").shared(());
        let (listeners, net) =
            ([nats(), spare_address()].map(|address| world.listen(address)), world.net());
        world.program(graph, move |start| {
            let server = server.clone();
            for (listeners, own) in listeners.iter().zip([server.clone(), server.gated()]) {
                let listener = listeners.listener(start)?;
                stage.dispatch(move |_| own.accept(listener, stage))?;
            }
            let access =
                Access { servers: config().cluster.access().unwrap().servers, ..Access::default() };
            let client = Client::new(Options { access, ..Options::default() }, resolver);
            let streams = JetStream::new(&client, "test", Duration::from_secs(5));
            stage.dispatch(move |_| async move { client.run().await })?;
            let names = ClusterNames { cluster: config().cluster.name, replicas: 1 };
            let context = broker.context().clone();
            let (test, net) = (test.clone(), net.clone());
            let program =
                Program { context, streams, names, stage, files, server, net: net.clone() };
            stage.dispatch(move |_| async move {
                program.streams.client().connected().await;
                test(program).await;
                net.drain();
            })?;
            Ok(())
        });
    });
}
