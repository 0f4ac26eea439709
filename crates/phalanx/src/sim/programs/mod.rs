//! Programs that clients start, stop and kill while a world runs, each on its own processors.

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

/// A program that a client has [started](Net::start). Dropping this does not end the program.
#[derive(Debug)]
pub struct Program {
    number: usize,
    orders: Orders,
}

impl Program {
    /// Stops the program, like SIGSTOP: its processors take no steps until it is [continued](Self::resume) or the world
    /// drains.
    pub fn stop(&self) {
        self.orders.give(Order::Stop(self.number, true));
    }

    /// Continues the program, like SIGCONT.
    pub fn resume(&self) {
        self.orders.give(Order::Stop(self.number, false));
    }

    /// Drains the program and waits until it has ended. The program must not be stopped.
    pub async fn drain(&self) {
        self.orders.give(Order::Drain(self.number));
        self.orders.ended(self.number).await;
    }

    /// Kills the program, like SIGKILL: its operations end where they are, and its sockets are closed. Waits until this
    /// is done. The destructors of its operations run in order to free memory of this process, but their attempts to
    /// send or to change a file fail.
    pub async fn kill(&self) {
        self.orders.give(Order::Kill(self.number));
        self.orders.ended(self.number).await;
    }
}

impl Net {
    /// Starts another program, on its own processors. The run fails if the start fails. When the world drains, this
    /// program drains too. Not available in [`explore_all`](super::explore_all).
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

    /// A directory of the simulated disk. It is created if it does not exist.
    pub fn directory(&self, path: &str) -> Dir {
        Dir(self.world.directory(path))
    }
}
