//! Programs that clients start, stop and kill while a world runs, each on processors of its own.

pub(super) mod launch;
pub(super) mod orders;

use std::net::SocketAddr;

use phalanx_core::Graph;

use self::launch::NewProgram;
use self::orders::{Order, Orders};
use super::client::Net;
use super::listeners::Listeners;
use crate::fs::Dir;
use crate::program::{StartContext, StartError};

/// A program that a client has [started](Net::start). Dropping this does not end it.
#[derive(Debug)]
pub struct Program {
    number: usize,
    orders: Orders,
}

impl Program {
    /// Stops it: its processors take no steps until it is [continued](Self::resume), as after SIGSTOP. The drain of the
    /// world continues it as well.
    pub fn stop(&self) {
        self.orders.give(Order::Stop(self.number, true));
    }

    /// Continues it, as SIGCONT does.
    pub fn resume(&self) {
        self.orders.give(Order::Stop(self.number, false));
    }

    /// Drains it, and waits until it has ended. It must not be stopped.
    pub async fn drain(&self) {
        self.orders.give(Order::Drain(self.number));
        self.orders.ended(self.number).await;
    }

    /// Kills it, as SIGKILL does: its operations end where they are, and its sockets are closed. Completes when that was
    /// done. The destructors of its operations run, because the memory of this process is freed, but their calls that would
    /// send something or change a file fail.
    pub async fn kill(&self) {
        self.orders.give(Order::Kill(self.number));
        self.orders.ended(self.number).await;
    }
}

impl Net {
    /// Starts a program beside that of the world, on processors of its own. The run fails if the start fails. The drain of
    /// the world drains it, too. Not for [`explore_all`](super::explore_all).
    ///
    /// ```
    /// use phalanx::{Graph, sim};
    ///
    /// sim::explore(5, |world| {
    ///     world.program(Graph::new(), |_| Ok(()));
    ///     let (net, address) = (world.net(), "10.0.0.1:7".parse().unwrap());
    ///     world.client(async move {
    ///         for _ in 0..2 {
    ///             let mut graph = Graph::new();
    ///             let stage = graph.shared("mute", ());
    ///             let listeners = net.listen(address, 1);
    ///             let program = net.start(1, graph, move |start| {
    ///                 let listener = listeners.listener(start)?;
    ///                 stage.dispatch(move |_| listener.accept_each(std::mem::forget))?;
    ///                 Ok(())
    ///             });
    ///             while net.connect(address).await.is_err() {}
    ///             program.kill().await;
    ///             assert!(net.connect(address).await.is_err());
    ///         }
    ///     });
    /// });
    /// ```
    pub fn start<F>(&self, processors: usize, graph: Graph, start: F) -> Program
    where
        F: Fn(&StartContext) -> Result<(), StartError> + 'static,
    {
        let orders = self.orders.clone();
        let number = orders.number();
        let start = Box::new(start);
        orders.give(Order::Start(NewProgram { number, processors, graph, start }));
        Program { number, orders }
    }

    /// Listening sockets at `address`, one for each processor of a program to be [started](Self::start).
    pub fn listen(&self, address: SocketAddr, processors: usize) -> Listeners {
        Listeners::new((0..processors).map(|_| self.world.listen(address)))
    }

    /// A directory of the simulated disk, which is created if it does not exist.
    pub fn directory(&self, path: &str) -> Dir {
        Dir(self.world.directory(path))
    }
}
