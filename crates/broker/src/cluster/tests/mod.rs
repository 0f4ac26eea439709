//! The lease and the stream of a journal, at a model of NATS.

mod adopting;
mod leases;
mod lost;
mod opening;
mod shutdown;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::blocking::{BlockingStage, blocking};
use phalanx::net::{Bytes, Resolver};
use phalanx::time::now;
use phalanx::{Graph, SharedStage, sim, sleep};
use phalanx_nats::{Access, Client, Expected, JetStream, JetStreamError, ModelServer, Options};
use phalanx_store::{LocalFuture, Mirror};

use crate::Broker;
use crate::cluster::adoption::adopt::adopt;
use crate::cluster::adoption::watch::watch;
use crate::cluster_names::{BATCH, ClusterNames, JournalName, OPEN, SEAL};
use crate::config::Config;
use crate::context::Context;
use crate::kept::lease::Record;
use crate::kept::mirror::StreamMirror;
use crate::kept::state::{Kept, OtherJournal};
use crate::peers::Peers;

const JOURNAL: u64 = 7;

/// Maximum number of operations at once.
const MOST: usize = 10_000;

fn nats() -> SocketAddr {
    ([10, 0, 0, 9], 4222).into()
}

fn config() -> Config {
    let mut config = Config::new();
    config.runtime.workers = 1;
    config.cluster.servers = vec![nats().to_string().parse().unwrap()];
    config.cluster.node = "a".into();
    config
}

fn journal() -> JournalName {
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
}

impl Program {
    /// A start of a node.
    fn kept(&self, start: &str) -> Arc<Kept> {
        Kept::new(&config().cluster, start, Peers::new().status.kept.clone())
    }

    /// A start of the journal's node, with its mirror.
    fn mirror(&self, start: &str) -> (Arc<Kept>, Rc<StreamMirror>) {
        let kept = self.kept(start);
        (kept.clone(), StreamMirror::start(kept, self.stage, self.files, false))
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

    /// Appends three messages, and removes the second. Returns the number of the last one.
    async fn put_gap(&self, stream: &str) -> u64 {
        let mut last = 0;
        for kind in [SEAL, OPEN, SEAL] {
            let subject = self.names.subject(&journal(), kind);
            last = self.streams.append(&subject, Expected::Any, b"").await.unwrap();
        }
        let missing = self.names.subject(&journal(), OPEN);
        self.streams.purge_subject(stream, &missing).await.unwrap();
        last
    }

    /// Starts to watch the leases as another node.
    fn watched(&self) -> Arc<Kept> {
        let kept = self.kept("2");
        kept.is_named(JournalName { node: "b".into(), id: 1 });
        kept.is_complete();
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
async fn renewed(kept: &Kept) {
    kept.is_renewed(now());
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
        world.set_steady();
        let mut graph = Graph::new();
        graph.max_operations(MOST);
        let broker =
            Broker::declare(&mut graph, &Config { cluster: Default::default(), ..config() });
        let resolver = Resolver::declare(&mut graph);
        let files = (blocking(&mut graph, "files").threads(1).state(()), resolver);
        let stage = graph.stage("test").shared(());
        let (listeners, net) = (world.listen(nats()), world.net());
        world.program(graph, move |start| {
            let listener = listeners.listener(start)?;
            let (server, own) = (server.clone(), server.clone());
            stage.dispatch(move |_| own.accept(listener, stage))?;
            let access =
                Access { servers: config().cluster.access().unwrap().servers, ..Access::default() };
            let client = Client::new(Options { access, ..Options::default() }, resolver);
            let streams = JetStream::new(&client, "test", Duration::from_secs(5));
            stage.dispatch(move |_| async move { client.run().await })?;
            let names = ClusterNames { cluster: config().cluster.name, replicas: 1 };
            let context = broker.context().clone();
            let program = Program { context, streams, names, stage, files, server };
            let (test, net) = (test.clone(), net.clone());
            stage.dispatch(move |_| async move {
                program.streams.client().connected().await;
                test(program).await;
                net.drain();
            })?;
            Ok(())
        });
    });
}

#[test]
fn a_node_whose_journal_was_adopted_creates_no_stream() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            streams.create(&names.leases()).await.unwrap();
            let (holder, start) = ("b.0000000000000001".to_owned(), "1".to_owned());
            let record = Record { holder, start, is_adopted: true, ..Record::default() };
            program.put_lease(&journal(), &record).await;
            let (kept, mirror) = program.mirror("2");
            assert!(mirror.open(JOURNAL, 1, 3).await.is_err() && kept.lost().is_some());
            let stream = streams.state(&names.stream(&journal()).name).await;
            assert_eq!(stream, Err(JetStreamError::NoStream));
        })
    });
}

#[test]
fn a_lease_shows_whether_the_stream_has_the_whole_journal() {
    run(|program| {
        Box::pin(async move {
            let is_incomplete = async || program.lease().await.map(|(_, own)| own.is_incomplete);
            let (kept, mirror) = program.mirror("1");
            assert_eq!(mirror.open(JOURNAL, 1, 3).await.unwrap(), 1);
            assert_eq!(is_incomplete().await, Some(true));
            for number in [1, 2] {
                mirror.append(number, Bytes::from(vec![7])).await.unwrap();
            }
            assert!(!kept.is_open());
            mirror.complete().await.unwrap();
            assert!(kept.is_open());
            assert_eq!(is_incomplete().await, Some(false));
            // The node crashed before NATS had batch 3, which it did not acknowledge.
            let (_, mirror) = program.mirror("2");
            assert_eq!(mirror.open(JOURNAL, 1, 4).await.unwrap(), 3);
            assert_eq!(is_incomplete().await, Some(false));
            // NATS has lost the stream.
            let Program { streams, names, .. } = &program;
            streams.delete(&names.stream(&journal()).name).await.unwrap();
            let (_, mirror) = program.mirror("3");
            assert_eq!(mirror.open(JOURNAL, 1, 4).await.unwrap(), 1);
            assert_eq!(is_incomplete().await, Some(true));
        })
    });
}

#[test]
fn a_journal_that_was_written_without_its_stream_is_sent_again() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            let (_, mirror) = program.mirror("1");
            mirror.open(JOURNAL, 1, 1).await.unwrap();
            for number in [1, 2] {
                mirror.append(number, Bytes::from(vec![7])).await.unwrap();
            }
            mirror.complete().await.unwrap();
            // The node did not keep its sessions for a time.
            let (_, mirror) = program.mirror("2");
            assert!(mirror.open(JOURNAL, 50, 52).await.unwrap() <= 50);
            assert!(program.lease().await.is_some_and(|(_, own)| own.is_incomplete));
            let state = streams.state(&names.stream(&journal()).name).await.unwrap();
            assert_eq!(state.first, state.last, "earlier batches were removed");
        })
    });
}

#[test]
fn a_journal_that_only_the_disk_has_is_not_adopted() {
    run(|program| {
        Box::pin(async move {
            let (_, mirror) = program.mirror("1");
            mirror.open(JOURNAL, 1, 3).await.unwrap();
            let (number, lease) = program.lease().await.unwrap();
            let kept = program.kept("2");
            kept.is_named(JournalName { node: "b".into(), id: 1 });
            let since = Duration::ZERO;
            let (start, is_unreadable) = (lease.start.clone(), false);
            let other = OtherJournal { lease, start, is_unreadable, number, since };
            kept.others(|others| others.insert(journal(), other));
            adopt(&program.context, &kept, &program.streams, &journal(), (number, "")).await;
            let (_, Record { holder, .. }) = program.lease().await.unwrap();
            assert_eq!(holder, journal().to_string());
        })
    });
}

#[test]
fn a_node_that_joins_during_an_adoption_is_known_when_it_ends() {
    run(|program| {
        Box::pin(async move {
            let streams = &program.streams;
            let (lost, joined) = (journal(), JournalName { node: "c".into(), id: 2 });
            let stream = program.put_stream(b"").await;
            // The adoption cannot continue as long as a message is missing.
            let last = program.put_gap(&stream).await;
            let kept = program.watched();
            while program.lease().await.unwrap().1.reader.is_none() {
                renewed(&kept).await;
            }
            program.put_lease(&joined, &lease_of(&joined)).await;
            sleep(Duration::from_secs(2)).await;
            streams.purge(&stream, last).await.unwrap();
            loop {
                let known = kept.journals().unwrap();
                if !known.contains(&lost.to_string()) {
                    assert!(known.contains(&joined.to_string()), "{known:?}");
                    break;
                }
                sleep(Duration::from_millis(5)).await;
            }
        })
    });
}
