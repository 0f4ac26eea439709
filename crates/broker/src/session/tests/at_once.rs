//! Messages that a session sends directly, because its connection's sender waits.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

use super::*;
use crate::model::waiting_sender::WaitingSender;
use crate::session::state::effects::Pulled;

/// A connection that accepts output while it has room.
struct Connection {
    room: Cell<usize>,
    sent: RefCell<Vec<u8>>,
}

impl WaitingSender for Connection {
    fn send_now(&self, bytes: &[u8]) -> bool {
        let left = self.room.get().checked_sub(bytes.len());
        if let Some(left) = left {
            self.room.set(left);
            self.sent.borrow_mut().extend_from_slice(bytes);
        }
        left.is_some()
    }
}

struct Client {
    sessions: Sessions,
    attached: (ClientKey, u64),
    connection: Rc<Connection>,
}

impl Client {
    fn new(room: usize) -> Self {
        let mut sessions = sessions();
        let Opened { key, connection_id, .. } = open(&mut sessions, true, at(0));
        let connection = Connection { room: Cell::new(room), sent: RefCell::default() };
        Self { sessions, attached: (key, connection_id), connection: Rc::new(connection) }
    }

    /// Pulls output as the sender does. Returns the length of the output.
    fn pull(&mut self) -> usize {
        let connection = self.connection.clone();
        let sender = || -> Weak<dyn WaitingSender> { Rc::downgrade(&connection) as _ };
        let waiting = (Waker::noop(), Some(&sender as &dyn Fn() -> Weak<dyn WaitingSender>));
        match self.sessions.pull(self.attached, &mut Vec::new(), at(0), waiting) {
            Poll::Pending => 0,
            Poll::Ready((Pulled::Output(output), _)) => {
                let (bytes, _) = output.into_parts();
                self.connection.sent.borrow_mut().extend_from_slice(&bytes);
                bytes.len()
            }
            Poll::Ready((Pulled::Closed(reason), _)) => panic!("closed: {reason:?}"),
        }
    }

    fn deliver(&mut self, messages: &[Arc<Message>]) {
        deliver(&mut self.sessions, self.attached.0, messages, at(0));
    }

    /// The number of bytes that the connection has sent.
    fn sent(&self) -> usize {
        self.connection.sent.borrow().len()
    }
}

fn once() -> Arc<Message> {
    message(Delivery::AtMostOnce, b"x")
}

/// The length of such a message as a packet.
fn length() -> usize {
    let mut client = Client::new(0);
    client.deliver(&[once()]);
    client.pull()
}

#[test]
fn a_message_is_sent_at_once_if_the_sender_waits() {
    let (mut client, each) = (Client::new(1000), length());
    client.deliver(&[once()]);
    assert_eq!(client.sent(), 0, "the sender does not wait");
    assert_eq!((client.pull(), client.pull()), (each, 0));
    client.deliver(&[once()]);
    client.deliver(&[once()]);
    assert_eq!((client.sent(), client.pull()), (3 * each, 0));
    // Several messages are sent together, by the sender.
    client.deliver(&[once(), once()]);
    assert_eq!((client.sent(), client.pull()), (3 * each, 2 * each));
}

#[test]
fn the_sender_sends_what_the_connection_does_not_take() {
    let each = length();
    let mut client = Client::new(each + 2);
    client.pull();
    (0..3).for_each(|_| client.deliver(&[once()]));
    assert_eq!((client.sent(), client.pull()), (each, 2 * each));
}

#[test]
fn messages_that_were_sent_at_once_are_not_lost_with_the_connection() {
    let each = length();
    let mut client = Client::new(each + 2);
    client.pull();
    (0..2).for_each(|_| client.deliver(&[once()]));
    let (key, connection_id) = client.attached;
    let closing = Closing { will: false, expiry: None };
    client.sessions.close(key, connection_id, closing, at(0));
    assert_eq!(dropped(&client.sessions), [(DropReason::ConnectionLost, 1)]);
}

#[test]
fn a_stored_message_is_not_sent_before_its_record() {
    let mut client = Client::new(1000);
    client.pull();
    let (how, mut batch) =
        (How { qos: QoS::AtLeastOnce, ..How::default() }, DeliveryBatch::default());
    batch.add(client.attached.0, &message(Delivery::AtLeastOnce(id(1)), b"x"), how).number = 1;
    client.sessions.deliver(&batch, at(0));
    assert_eq!(client.sent(), 0);
    assert!(client.pull() > 0);
}
