//! Requests on a socket whose earlier request in the same direction was cancelled, but has not completed. They start
//! when it has: the kernel may still write to its buffer, or send the last of its bytes.

use crate::files::sendfile::FileSend;
use crate::uring::{Pending, Uring};
use crate::user_bytes::Outgoing;
use crate::{Socket, Token};

/// The requests of a socket that wait for a cancelled one: at most one in each direction.
#[derive(Default)]
pub(crate) struct Queued {
    send: Option<QueuedSend>,
    receive: Option<QueuedDatagram>,
}

/// A send.
pub(crate) struct QueuedSend {
    pub(crate) token: Token,
    pub(crate) content: QueuedContent,
}

/// The bytes to send.
pub(crate) enum QueuedContent {
    Bytes(Outgoing),
    File(FileSend),
}

/// A receive of a datagram.
pub(crate) struct QueuedDatagram {
    pub(crate) token: Token,
    pub(crate) buffer: Vec<u8>,
    pub(crate) max: usize,
}

impl Queued {
    /// The tokens of all requests.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = Token> + use<> {
        let send = self.send.as_ref().map(|send| send.token);
        send.into_iter().chain(self.receive.as_ref().map(|receive| receive.token))
    }

    fn remove(&mut self, token: Token) {
        self.send.take_if(|send| send.token == token);
        self.receive.take_if(|receive| receive.token == token);
    }
}

/// Takes something out of a socket's queue, which is freed once it is empty. Returns the default value if there is no
/// queue.
fn take<T: Default>(queued: &mut Option<Box<Queued>>, part: impl FnOnce(&mut Queued) -> T) -> T {
    let part = queued.as_mut().map_or_else(T::default, |queued| part(queued));
    queued.take_if(|queued| queued.send.is_none() && queued.receive.is_none());
    part
}

impl Uring {
    /// Queues a send behind the one in flight. Refuses it if that send was not cancelled, or if another one is queued
    /// already.
    #[cold]
    pub(crate) fn queue_send(&mut self, socket: Socket, send: QueuedSend) {
        let state = self.sockets.get_mut(socket).expect("the caller has found it");
        let is_cancelled =
            state.sending.is_some_and(|user_data| self.inflight.is_cancelled(user_data));
        let token = send.token;
        if !is_cancelled || state.queued.as_ref().is_some_and(|queued| queued.send.is_some()) {
            return self.completions.reject(token, libc::EBUSY);
        }
        state.queued.get_or_insert_default().send = Some(send);
        self.completions.pending.insert(token, Pending::Queued(socket));
    }

    /// Queues a receive of a datagram in the same way.
    #[cold]
    pub(crate) fn queue_receive(&mut self, socket: Socket, receive: QueuedDatagram) {
        let state = self.sockets.get_mut(socket).expect("the caller has found it");
        // After a misuse, the operation is a stream's receive, which has its own queue.
        let is_cancelled = state.receiving.armed.is_some_and(|user_data| {
            self.inflight.receive(user_data).is_none() && self.inflight.is_cancelled(user_data)
        });
        let is_busy = !is_cancelled || state.receiving.waiting.is_some();
        let token = receive.token;
        if is_busy || state.queued.as_ref().is_some_and(|queued| queued.receive.is_some()) {
            return self.completions.reject(token, libc::EBUSY);
        }
        state.queued.get_or_insert_default().receive = Some(receive);
        self.completions.pending.insert(token, Pending::Queued(socket));
    }

    /// Starts the queued send of `socket`, after the completion of the cancelled one.
    #[cold]
    pub(crate) fn start_queued_send(&mut self, socket: Socket) {
        let Some(state) = self.sockets.get_mut(socket) else { return };
        let send = take(&mut state.queued, |queued| queued.send.take());
        let Some(QueuedSend { token, content }) = send else { return };
        self.completions.pending.remove(token);
        match content {
            QueuedContent::Bytes(payload) => self.send(token, socket, payload),
            QueuedContent::File(file) => self.send_file(token, socket, Ok(file)),
        }
    }

    /// Starts the queued receive of `socket`, after the completion of the cancelled one.
    #[cold]
    pub(crate) fn start_queued_receive(&mut self, socket: Socket) {
        let Some(state) = self.sockets.get_mut(socket) else { return };
        let receive = take(&mut state.queued, |queued| queued.receive.take());
        let Some(QueuedDatagram { token, buffer, max }) = receive else { return };
        self.completions.pending.remove(token);
        self.receive_datagram(token, socket, buffer, max);
    }

    /// Cancels a queued request.
    #[cold]
    pub(crate) fn cancel_queued(&mut self, token: Token, socket: Socket) {
        let state = self.sockets.get_mut(socket).expect("a request keeps no closed socket");
        take(&mut state.queued, |queued| queued.remove(token));
        self.completions.cancel(token);
    }
}
