//! The requests and answers that nodes exchange about a move.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use phalanx::shutdown::is_draining;
use phalanx::sync::oneshot;
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{select, sleep};
use phalanx_nats::Message;
use serde::{Deserialize, Serialize};

use crate::cluster::intervals::TICKS_PER_TIMEOUT;
use crate::cluster::moving::{Moves, next_interval};
use crate::cluster::node::{Node, answered_request};
use crate::cluster::peer_node::VERSION;
use crate::session::partition::moving::NotNow;

/// Maximum bytes of one answer, so that its message is smaller than NATS's default limit of 1 MiB.
const MAX_PART_BYTES: usize = 512 * 1024;

/// The first pause before a request is repeated that the holder cannot serve yet.
const MIN_RETRY_INTERVAL: Duration = Duration::from_millis(2);

/// A request to the holder of a session.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Request {
    pub(super) token: String,
    /// The journals of the holder and of the new node.
    pub(super) from: String,
    pub(super) to: String,
    pub(super) client: String,
    pub(super) user: Option<String>,
    pub(super) step: Step,
    /// The offset in the complete answer from which on bytes are requested.
    pub(super) offset: usize,
}

/// A step of a move.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) enum Step {
    /// Disconnect the client. The answer contains the session and its subscriptions.
    Leave,
    /// Have all nodes send their marks. The answer is empty.
    Cut,
    /// Give the session away. The answer contains its state.
    Give,
    /// Keep the session, because the new node has given up. There is no answer.
    Stay,
}

/// The header of a session's state.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct StateHeader {
    /// The journals of the nodes whose marks the holder has.
    pub(super) nodes: Vec<String>,
    /// The latest claim that the holder knows.
    pub(super) claimed: u64,
}

/// The answer of a holder.
pub(super) enum Answer<'a> {
    /// The holder cannot serve the request yet.
    Wait,
    /// The session does not move.
    Over,
    /// The move is over because the nodes changed.
    Again,
    /// The size of the complete answer, and some of its bytes.
    Part(usize, &'a [u8]),
}

impl<'a> Answer<'a> {
    /// The bytes from `offset` on that fit into one answer.
    pub(super) fn part(all: &'a [u8], offset: usize) -> Self {
        let rest = all.get(offset..).unwrap_or_default();
        Self::Part(all.len(), &rest[..rest.len().min(MAX_PART_BYTES)])
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Wait => b"W".to_vec(),
            Self::Over => b"O".to_vec(),
            Self::Again => b"A".to_vec(),
            Self::Part(total, bytes) => {
                let mut out = b"P".to_vec();
                out.extend_from_slice(&(*total as u64).to_be_bytes());
                out.extend_from_slice(bytes);
                out
            }
        }
    }

    fn decode(payload: &'a [u8]) -> Option<Self> {
        match payload.split_first()? {
            (b'W', _) => Some(Self::Wait),
            (b'O', _) => Some(Self::Over),
            (b'A', _) => Some(Self::Again),
            (b'P', rest) => {
                let (total, bytes) = rest.split_first_chunk()?;
                Some(Self::Part(usize::try_from(u64::from_be_bytes(*total)).ok()?, bytes))
            }
            _ => None,
        }
    }
}

/// Encodes the header and the state of a session.
pub(super) fn encode_state(head: &StateHeader, state: &[u8]) -> Vec<u8> {
    let head = serde_json::to_vec(head).unwrap_or_default();
    let mut out = (head.len() as u64).to_be_bytes().to_vec();
    out.extend_from_slice(&head);
    out.extend_from_slice(state);
    out
}

/// Decodes the header and the state of a session.
pub(super) fn decode_state(bytes: &[u8]) -> Option<(StateHeader, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::try_from(u64::from_be_bytes(*length)).ok()?;
    let (head, state) = rest.split_at_checked(length)?;
    Some((serde_json::from_slice(head).ok()?, state))
}

/// Requests of this node that have not been answered, by number.
#[derive(Default)]
pub(super) struct Calls {
    next: Cell<u64>,
    open: RefCell<BTreeMap<u64, oneshot::LocalSender<Vec<u8>>>>,
}

/// The subject of requests to the node with this name.
pub(super) fn subject(node: &Node, name: &str) -> String {
    node.subject(&format!("moving.{VERSION}.{name}"))
}

/// Receives the answers to this node's requests.
pub(super) fn listen(node: &Rc<Node>, moves: &Rc<Moves>) {
    let moves = moves.clone();
    node.client.subscribe(
        &format!("{}.*", node.inbox("moving")),
        None,
        move |message: Message<'_>| {
            let number = answered_request(&message);
            let call = number.and_then(|number| moves.calls.open.borrow_mut().remove(&number));
            if let Some(call) = call {
                call.send(message.payload.to_vec());
            }
        },
    );
}

/// Sends a request without an answer to the node with this name.
pub(super) fn send(node: &Node, name: &str, request: &Request) {
    let payload = serde_json::to_vec(request).unwrap_or_default();
    // If the request is lost, the holder asks all nodes later.
    let _ = node.client.publish(&subject(node, name), None, None, &payload);
}

/// Sends a request to the node with this name until the complete answer has arrived.
///
/// # Errors
/// If the session does not move, or the answer is incomplete at `limit`.
pub(super) async fn call(
    (node, moves): (&Node, &Moves),
    name: &str,
    request: &Request,
    limit: Duration,
) -> Result<Vec<u8>, NotNow> {
    let (mut all, subject, mut wait) = (Vec::new(), subject(node, name), MIN_RETRY_INTERVAL);
    while now() < limit && !is_draining() {
        let calls = &moves.calls;
        let number = calls.next.get();
        calls.next.set(number + 1);
        let (sender, receiver) = oneshot::local();
        calls.open.borrow_mut().insert(number, sender);
        let request = Request { offset: all.len(), ..request.clone() };
        let payload = serde_json::to_vec(&request).unwrap_or_default();
        let reply = format!("{}.{number}", node.inbox("moving"));
        // A lost request is repeated below.
        let _ = node.client.publish(&subject, Some(&reply), None, &payload);
        let pause = (node.timeout / TICKS_PER_TIMEOUT).min(limit.saturating_sub(now()));
        let answer = select(receiver, sleep(pause)).await;
        calls.open.borrow_mut().remove(&number);
        let Either::Left(Some(answer)) = answer else { continue };
        match Answer::decode(&answer) {
            Some(Answer::Part(total, bytes)) => {
                all.extend_from_slice(bytes);
                if all.len() >= total {
                    return Ok(all);
                }
            }
            Some(Answer::Wait) => {
                sleep(wait).await;
                wait = next_interval(wait);
            }
            Some(Answer::Again) => return Err(NotNow::Again),
            Some(Answer::Over) | None => return Err(NotNow::Over),
        }
    }
    Err(NotNow::Over)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_in_parts() {
        let head = StateHeader { nodes: vec!["a.1".into()], claimed: 7 };
        let all = encode_state(&head, &vec![9; MAX_PART_BYTES]);
        let mut read = Vec::new();
        while read.len() < all.len() {
            let part = Answer::part(&all, read.len()).encode();
            let Some(Answer::Part(total, bytes)) = Answer::decode(&part) else { panic!("no part") };
            assert_eq!(total, all.len());
            read.extend_from_slice(bytes);
        }
        let (head, state) = decode_state(&read).unwrap();
        assert_eq!((&*head.nodes[0], head.claimed, state.len()), ("a.1", 7, MAX_PART_BYTES));
        assert!(matches!(Answer::decode(&Answer::Wait.encode()), Some(Answer::Wait)));
        assert!(matches!(Answer::decode(&Answer::Over.encode()), Some(Answer::Over)));
        assert!(matches!(Answer::decode(&Answer::Again.encode()), Some(Answer::Again)));
        assert!(decode_state(b"").is_none() && decode_state(&u64::MAX.to_be_bytes()).is_none());
        assert!(Answer::decode(b"").is_none() && Answer::decode(b"P").is_none());
    }
}
