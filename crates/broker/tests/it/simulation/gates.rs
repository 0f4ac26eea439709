//! A simulated NATS server, with a gate for each of three nodes, which can be closed.

use std::net::SocketAddr;

use phalanx::Graph;
use phalanx::runtime::{StartContext, StartError};
use phalanx::sim::{Net, World};
use phalanx_nats::{ModelServer, Passage};

use crate::simulation::clustered::nats;

/// The simulated server and its gates. It runs in the program of the world.
pub(crate) struct Gates {
    pub(crate) model: ModelServer,
    pub(crate) of_nodes: [ModelServer; 3],
}

/// The address of a node's gate.
pub(crate) fn gate_of(number: usize) -> SocketAddr {
    let mut address = nats();
    address.set_port(address.port() + number as u16);
    address
}

/// Draws how a node is cut off.
pub(crate) fn draw_cut(net: &Net) -> Passage {
    [Passage::Frozen, Passage::Closed][net.draw(2) as usize]
}

impl Gates {
    /// Declares the server. Returns the function that accepts the nodes' connections when the program starts.
    pub(crate) fn declare(
        world: &mut World,
        graph: &mut Graph,
    ) -> (Self, impl Fn(&StartContext) -> Result<(), StartError> + use<>) {
        let (model, stage) = (ModelServer::default(), graph.stage("nats").shared(()));
        let of_nodes = [(); 3].map(|()| model.gated());
        let listeners = [0, 1, 2].map(|number| world.listen(gate_of(number)));
        let gates = of_nodes.clone();
        let accept = move |start: &StartContext| {
            for (gate, listeners) in gates.iter().zip(&listeners) {
                let (own, listener) = (gate.clone(), listeners.listener(start)?);
                stage.dispatch(move |_| own.accept(listener, stage))?;
            }
            Ok(())
        };
        (Self { model, of_nodes }, accept)
    }

    /// Opens all gates.
    pub(crate) fn open_all(&self) {
        self.of_nodes.iter().for_each(|gate| gate.set(Passage::Open));
    }
}
