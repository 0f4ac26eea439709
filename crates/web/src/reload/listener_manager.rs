//! Management of a processor's listeners: an operation that opens, changes and closes them on command.

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
use phalanx::sync::oneshot;
use phalanx::task::Either;
use phalanx_service::SighupHandle;

use crate::conn::accept::{AcceptContext, ListenerControl, ListenerKind, accept};
use crate::reload::listeners::{CommandQueues, ListenerCommand};
use crate::stages::Stages;

/// The listeners of one processor.
pub(crate) struct ListenerManager {
    commands: Arc<CommandQueues>,
    processor: usize,
    context: AcceptContext,
    stages: Stages,
    open: HashMap<u64, Open>,
}

/// An open listener.
struct Open {
    kind: Rc<Cell<ListenerKind>>,
    close: oneshot::LocalSender<()>,
}

impl ListenerManager {
    /// Opens the initial listeners.
    ///
    /// # Errors
    /// If a listener cannot be opened on this processor.
    pub(crate) fn new(
        commands: Arc<CommandQueues>,
        processor: usize,
        context: AcceptContext,
        stages: Stages,
    ) -> Result<Self, StartError> {
        let mut manager = Self { commands, processor, context, stages, open: HashMap::new() };
        while let Ok(command) = manager.commands.take(processor) {
            manager.execute(command)?;
        }
        Ok(manager)
    }

    /// Executes commands until the program shuts down; then closes `ends`, if given.
    pub(crate) async fn run(mut self, ends: Option<SighupHandle>) {
        let mut draining = draining();
        loop {
            let wait = match self.commands.take(self.processor) {
                Ok(command) => {
                    if let Err(error) = self.execute(command) {
                        // The other processors keep their sockets; the kernel spreads connections over those.
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
        ends.iter().for_each(SighupHandle::close);
    }

    fn execute(&mut self, command: ListenerCommand) -> Result<(), StartError> {
        match command {
            ListenerCommand::Open { id, socket, kind } => {
                let open = self.open(socket, kind)?;
                self.open.insert(id, open);
            }
            ListenerCommand::SetKind { id, kind } => {
                if let Some(open) = self.open.get(&id) {
                    open.kind.set(kind);
                }
            }
            ListenerCommand::Close { id } => {
                if let Some(open) = self.open.remove(&id) {
                    open.close.send(());
                }
            }
        }
        Ok(())
    }

    fn open(&self, socket: TcpListener, kind: ListenerKind) -> Result<Open, StartError> {
        let listener: io::Result<Listener> = Listener::new(socket);
        let (listener, context) = (listener?, self.context.clone());
        let (kind, (sender, close)) = (Rc::new(Cell::new(kind)), oneshot::local());
        let control = ListenerControl { kind: kind.clone(), close: Some(close) };
        self.stages.network.dispatch(move |_| accept(listener, control, context))?;
        Ok(Open { kind, close: sender })
    }
}
