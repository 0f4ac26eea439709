//! An operation of each processor that opens and shuts its entrances as it is ordered to.

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;

use phalanx::net::Listener;
use phalanx::runtime::StartError;
use phalanx::select;
use phalanx::shutdown::draining;
use phalanx::sync::{Trigger, event};
use phalanx::task::Either;
use phalanx_service::Ends;

use crate::connection::accept::{Accepting, Door, Entrance, accept};
use crate::reload::entrances::{Order, Orders};
use crate::stages::Stages;

/// One processor's entrances.
pub(crate) struct Keeper {
    orders: Arc<Orders>,
    processor: usize,
    accepting: Accepting,
    stages: Stages,
    open: HashMap<u64, Open>,
}

/// An entrance that is open.
struct Open {
    door: Rc<Cell<Door>>,
    shut: Trigger<()>,
}

impl Keeper {
    /// Opens what is to be open from the start.
    ///
    /// # Errors
    /// When an entrance cannot be opened here.
    pub(crate) fn new(
        orders: Arc<Orders>,
        processor: usize,
        accepting: Accepting,
        stages: Stages,
    ) -> Result<Self, StartError> {
        let mut keeper = Self { orders, processor, accepting, stages, open: HashMap::new() };
        while let Ok(order) = keeper.orders.take(processor) {
            keeper.obey(order)?;
        }
        Ok(keeper)
    }

    /// Keeps them until the program drains; then closes `ends`, if there is something to close.
    pub(crate) async fn keep(mut self, ends: Option<Ends>) {
        let mut draining = draining();
        loop {
            let wait = match self.orders.take(self.processor) {
                Ok(order) => {
                    if let Err(error) = self.obey(order) {
                        // The other processors have theirs: the kernel spreads connections over those.
                        let processor = self.processor;
                        eprintln!("phalanx: processor {processor} cannot listen: {error}");
                    }
                    continue;
                }
                Err(wait) => wait,
            };
            if let Either::Left(()) = select(&mut draining, wait).await {
                break;
            }
        }
        ends.iter().for_each(Ends::close);
    }

    fn obey(&mut self, order: Order) -> Result<(), StartError> {
        match order {
            Order::Open { id, socket, door } => {
                let open = self.open(socket, door)?;
                self.open.insert(id, open);
            }
            Order::Change { id, door } => {
                if let Some(open) = self.open.get(&id) {
                    open.door.set(door);
                }
            }
            Order::Shut { id } => {
                if let Some(open) = self.open.remove(&id) {
                    open.shut.fire(());
                }
            }
        }
        Ok(())
    }

    fn open(&self, socket: TcpListener, door: Door) -> Result<Open, StartError> {
        let listener: io::Result<Listener> = Listener::new(socket);
        let (listener, accepting) = (listener?, self.accepting.clone());
        let (door, (trigger, shut)) = (Rc::new(Cell::new(door)), event());
        let entrance = Entrance { door: door.clone(), shut: Some(shut) };
        self.stages.network.dispatch(move |_| accept(listener, entrance, accepting))?;
        Ok(Open { door, shut: trigger })
    }
}
