//! Commands to the processors, one queue per processor.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use phalanx::sync::oneshot;

/// Command to one processor.
pub(super) enum ListenerCommand<K> {
    Open { id: u64, socket: OwnedFd, kind: K },
    SetKind { id: u64, kind: K },
    Close { id: u64 },
}

/// Pending commands, one queue per processor.
pub struct CommandQueues<K>(Vec<Mutex<Queue<K>>>);

struct Queue<K> {
    commands: VecDeque<ListenerCommand<K>>,
    /// Wakes the processor when a command is added.
    waker: Option<oneshot::Sender<()>>,
}

impl<K> CommandQueues<K> {
    pub(super) fn new(processors: usize) -> Self {
        let queue = |_| Mutex::new(Queue { commands: VecDeque::new(), waker: None });
        Self((0..processors).map(queue).collect())
    }

    pub(super) fn push(&self, processor: usize, command: ListenerCommand<K>) {
        let mut queue = self.0[processor].lock().unwrap_or_else(PoisonError::into_inner);
        queue.commands.push_back(command);
        let waker = queue.waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.send(());
        }
    }

    pub(super) fn push_all(&self, command: impl Fn() -> ListenerCommand<K>) {
        (0..self.0.len()).for_each(|processor| self.push(processor, command()));
    }

    /// The next command for a processor, or an event that fires when there is one.
    pub(super) fn take(
        &self,
        processor: usize,
    ) -> Result<ListenerCommand<K>, oneshot::Receiver<()>> {
        let mut queue = self.0[processor].lock().unwrap_or_else(PoisonError::into_inner);
        queue.commands.pop_front().ok_or_else(|| {
            let (sender, event) = oneshot::shared();
            queue.waker = Some(sender);
            event
        })
    }
}
