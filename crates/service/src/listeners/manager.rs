//! Management of a processor's listeners: an operation that opens, changes and closes them on command.

use std::cell::Cell;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::net::{Listener, Stream};
use phalanx::runtime::{StartError, report};
use phalanx::shutdown::draining;
use phalanx::sync::oneshot;
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{CallError, select, timeout};

use crate::listeners::commands::{CommandQueues, ListenerCommand};
use crate::sighup::SighupHandle;

/// Time during which a closing listener still accepts: the kernel resets connections that are in its backlog
/// when the socket is closed.
const CLOSE_GRACE: Duration = Duration::from_millis(50);

/// Controls of one listener on one processor.
pub struct ListenerControl<K> {
    kind: Rc<Cell<K>>,
    /// Fires when the listener must close; `None` if it stays open until shutdown.
    close: Option<oneshot::LocalReceiver<()>>,
    /// Time until which a closing listener still accepts.
    last: Option<Duration>,
}

impl<K: Copy> ListenerControl<K> {
    /// Controls of a listener that stays open until shutdown.
    pub fn fixed(kind: K) -> Self {
        Self { kind: Rc::new(Cell::new(kind)), close: None, last: None }
    }

    /// Protocol of new connections; may change while the listener is open.
    pub fn kind(&self) -> K {
        self.kind.get()
    }

    /// Accepts the next connection. Returns `None` once the program shuts down or the listener closes.
    pub async fn next(&mut self, listener: &Listener) -> Option<Stream> {
        let mut next = pin!(listener.accept_next());
        let Some(close) = &mut self.close else { return next.await };
        match select(next.as_mut(), close).await {
            Either::Left(stream) => stream,
            Either::Right(_) => {
                let last = *self.last.get_or_insert_with(|| now() + CLOSE_GRACE);
                timeout(last.saturating_sub(now()), next).await.ok().flatten()
            }
        }
    }
}

/// The listeners of one processor. `A` starts the operation that accepts from one of them.
pub struct ListenerManager<K, A> {
    commands: Arc<CommandQueues<K>>,
    processor: usize,
    accept: A,
    open: HashMap<u64, Open<K>>,
}

/// An open listener.
struct Open<K> {
    kind: Rc<Cell<K>>,
    close: oneshot::LocalSender<()>,
}

impl<K: Copy, A> ListenerManager<K, A>
where
    A: Fn(Listener, ListenerControl<K>) -> Result<(), CallError>,
{
    /// Opens the initial listeners of a processor.
    ///
    /// # Errors
    /// If a listener cannot be opened on this processor.
    pub fn new(
        commands: Arc<CommandQueues<K>>,
        processor: usize,
        accept: A,
    ) -> Result<Self, StartError> {
        let mut manager = Self { commands, processor, accept, open: HashMap::new() };
        while let Ok(command) = manager.commands.take(processor) {
            manager.execute(command)?;
        }
        Ok(manager)
    }

    /// Executes commands until the program shuts down. Then closes `ends`, if given, to end the SIGHUP thread.
    pub async fn run(mut self, ends: Option<SighupHandle>) {
        let mut draining = draining();
        loop {
            let wait = match self.commands.take(self.processor) {
                Ok(command) => {
                    if let Err(error) = self.execute(command) {
                        // The other processors keep their sockets; the kernel spreads connections over those.
                        let processor = self.processor;
                        report(format_args!("processor {processor} cannot listen: {error}"));
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

    fn execute(&mut self, command: ListenerCommand<K>) -> Result<(), StartError> {
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

    fn open(&self, socket: OwnedFd, kind: K) -> Result<Open<K>, StartError> {
        let listener = Listener::new(socket)?;
        let (kind, (sender, close)) = (Rc::new(Cell::new(kind)), oneshot::local());
        let control = ListenerControl { kind: kind.clone(), close: Some(close), last: None };
        (self.accept)(listener, control)?;
        Ok(Open { kind, close: sender })
    }
}
