//! Nodes of a cluster that are separate programs. They lose power, are stopped and drained, and restart with the files
//! that survived on their disks.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::Duration;

use phalanx::Graph;
use phalanx::sim::{Net, Program, World};
use phalanx_broker::{Broker, Config};
use phalanx_store::{Options, Store};

use crate::simulation::adopted::{node, options};
use crate::simulation::power_cuts::Files;
use crate::simulation::wire::{NODES, until};

/// A node.
pub(crate) struct Node {
    net: Net,
    number: usize,
    config: Config,
    options: Options,
    /// The number of starts, and of starts without a journal.
    starts: Cell<u64>,
    journals: Cell<u64>,
    /// `None` while the node is down.
    running: RefCell<Option<(Program, Broker)>>,
}

impl Node {
    /// Starts a node without a journal.
    pub(crate) fn start(world: &World, number: usize) -> Self {
        let own = Self {
            net: world.net(),
            number,
            config: node(world, number),
            options: options(world, number),
            starts: Cell::new(0),
            journals: Cell::new(0),
            running: RefCell::default(),
        };
        own.start_with(&Files::new());
        own
    }

    /// Starts the node with these files on its disk.
    fn start_with(&self, files: &Files) {
        let (net, name) = (&self.net, self.config.cluster.node.as_str());
        let mut options = self.options;
        if files.is_empty() {
            self.journals.set(self.journals.get() + 1);
        }
        // Each journal has another salt.
        options.salt = options.salt.map(|salt| salt | self.journals.get() << 4);
        let mut config = self.config.clone();
        config.seed = config.seed.map(|seed| seed | self.starts.get() << 4);
        self.starts.set(self.starts.get() + 1);
        let store = Store::open_in(files, net.directory(name), Path::new(name), options);
        let store = store.unwrap_or_else(|error| panic!("{error}"));
        let mut graph = Graph::new();
        let of_graph = &mut graph;
        // The time of day at which the simulated clock started.
        let began = net.time_of_day() - net.now();
        let broker = Broker::declare_on(of_graph, &config, store, began).unwrap();
        let (begun, listeners) = (broker.clone(), net.listen(NODES[self.number], 1));
        let program = net.start(1, graph, move |start| {
            begun.begin(start);
            Ok(begun.accept(listeners.listener(start)?)?)
        });
        self.running.replace(Some((program, broker)));
    }

    /// Waits until the node runs, takes its program, and marks it as down.
    async fn down(&self) -> Program {
        until(|| self.running.borrow().is_some()).await;
        self.running.take().expect("checked before").0
    }

    /// Cuts the node's power, and starts it after this time.
    pub(crate) async fn cut_power(&self, time: Duration) {
        self.down().await.kill().await;
        let files = self.survivors();
        self.net.sleep(time).await;
        self.start_with(&files);
    }

    async fn drain(&self) {
        let program = self.down().await;
        // The program may be stopped.
        program.resume();
        program.drain().await;
    }

    /// Drains the node, and starts it after this time.
    pub(crate) async fn restart(&self, time: Duration) {
        self.drain().await;
        let files = self.survivors();
        self.net.sleep(time).await;
        self.start_with(&files);
    }

    /// Stops the node's program for this time.
    pub(crate) async fn stop(&self, time: Duration) {
        until(|| self.running.borrow().is_some()).await;
        let stop = |stops: bool| {
            self.running.borrow().iter().for_each(|(program, _)| match stops {
                true => program.stop(),
                false => program.resume(),
            });
        };
        stop(true);
        self.net.sleep(time).await;
        // The node may have been restarted meanwhile, so this may be another program.
        stop(false);
    }

    /// Restarts the node without a journal whenever another node has adopted its sessions, until the world is drained.
    pub(crate) async fn start_anew(&self) {
        let running = || self.running.borrow();
        let has_lost = || running().as_ref().is_some_and(|(_, broker)| broker.has_lost_sessions());
        loop {
            until(|| has_lost() || self.net.is_draining()).await;
            if self.net.is_draining() {
                return;
            }
            self.drain().await;
            self.replace_files(&Files::new());
            self.start_with(&Files::new());
        }
    }

    /// Returns the files that a power cut would leave on the disk now, and removes everything else.
    fn survivors(&self) -> Files {
        let survivors = names().filter_map(|name| {
            let bytes = self.net.content_after_power_cut(&self.path(&name))?;
            Some((name, bytes))
        });
        let survivors = survivors.collect();
        self.replace_files(&survivors);
        survivors
    }

    fn replace_files(&self, files: &Files) {
        for name in names() {
            match files.get(&name) {
                Some(bytes) => self.net.write_file(&self.path(&name), bytes.clone()),
                None => _ = self.net.remove_file(&self.path(&name)),
            }
        }
    }

    fn path(&self, file: &str) -> String {
        format!("{}/{file}", self.config.cluster.node)
    }
}

/// The names that a journal's files may have.
fn names() -> impl Iterator<Item = String> {
    let segments = (1..1000).map(|number| format!("{number:012}.journal"));
    segments.chain(["position".to_owned()])
}
