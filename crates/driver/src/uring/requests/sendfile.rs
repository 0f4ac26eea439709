//! Sending files, by system calls outside the ring: io_uring has no operation that sends a file to a socket
//! without a kernel thread. The ring only reports when a socket has space again.

use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Instant;

use crate::files::sendfile::{FileSend, Step, TURN_BYTES};
use crate::uring::operation::file_sends::{FileInFlight, FileSends, WaitingForSpace};
use crate::uring::operation::inflight::Operation;
use crate::uring::requests::queued::{QueuedContent, QueuedSend};
use crate::uring::{Pending, Uring};
use crate::{Socket, Token};

impl Uring {
    pub(crate) fn send_file(&mut self, token: Token, socket: Socket, file: io::Result<FileSend>) {
        let Some(state) = self.sockets.get_mut(socket) else {
            return self.completions.reject(token, libc::EBADF);
        };
        match file {
            Ok(sending) if state.is_sending() => {
                let content = QueuedContent::File(sending);
                self.queue_send(socket, QueuedSend { token, content });
            }
            Ok(sending) => {
                let fd = Rc::clone(&state.fd);
                let entry = FileInFlight { token, socket, fd, sending, armed: None };
                let key = self.files.sends.insert(entry);
                state.sending_file = Some(key as u32);
                self.files.mark_ready(key);
                self.completions.pending.insert(token, Pending::File(key));
            }
            Err(error) => self.completions.finish(token, Err(error)),
        }
    }

    /// Continues files after all other requests, because those are short. The next submission starts the
    /// waits for space.
    pub(crate) fn continue_files(&mut self) {
        if self.files.is_ready() {
            self.send_files();
        }
    }

    /// Continues files for one turn.
    #[cold]
    fn send_files(&mut self) {
        let mut turn = TURN_BYTES;
        if let Some((_, since)) = self.files.ready.front() {
            self.files.waits.add(Instant::now(), *since);
        }
        // Each file once: a file that pauses continues in the next turn, behind all others.
        for _ in 0..self.files.ready.len() {
            if turn == 0 {
                break;
            }
            let Some((key, _)) = self.files.ready.pop_front() else { break };
            // The file has ended in the meantime.
            let Some(entry) = self.files.sends.get_mut(key) else { continue };
            let step = match entry.sending.advance(entry.fd.as_fd(), &mut turn, &mut self.calls) {
                Ok(Step::Paused) => {
                    self.files.mark_ready(key);
                    continue;
                }
                Ok(Step::Full) => {
                    let fd = Rc::clone(&entry.fd);
                    let user_data =
                        self.launch(Operation::WaitForSpace(WaitingForSpace { fd, key }));
                    self.files.sends[key].armed = Some(user_data);
                    continue;
                }
                Ok(Step::Over) => Ok(()),
                Err(error) => Err(error),
            };
            let FileInFlight { token, socket, sending, .. } = self.files.sends.remove(key);
            if let Some(state) = self.sockets.get_mut(socket) {
                state.sending_file = None;
            }
            self.completions.finish(token, step.map(|()| sending.done()));
        }
    }

    /// Handles the completion of a wait: a socket has space, or an error, which the next call returns.
    pub(crate) fn space_available(&mut self, user_data: u64) {
        let Operation::WaitForSpace(WaitingForSpace { key, .. }) = self.inflight.remove(user_data)
        else {
            unreachable!("the caller looked")
        };
        // Otherwise that file has ended, and its key may belong to another one.
        if let Some(entry) = self.files.sends.get_mut(key)
            && entry.armed == Some(user_data)
        {
            entry.armed = None;
            self.files.mark_ready(key);
        }
    }

    /// Ends the file with this key early.
    pub(crate) fn end_file(&mut self, key: usize) {
        let FileInFlight { token, socket, armed, .. } = self.files.sends.remove(key);
        self.files.ready.retain(|(other, _)| *other != key);
        if let Some(user_data) = armed {
            self.abort(user_data);
        }
        if let Some(state) = self.sockets.get_mut(socket) {
            state.sending_file = None;
        }
        self.completions.cancel(token);
    }

    /// Drops all files, without completions.
    pub(crate) fn drop_files(&mut self) {
        self.files = FileSends::default();
    }
}
