//! Asks all nodes for their copies of clients' sessions, and answers the questions of other nodes.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use phalanx::sync::oneshot;
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{select, sleep};
use phalanx_nats::Message;
use serde::{Deserialize, Serialize};

use crate::access::Identity;
use crate::cluster::node::{Node, answered_request};
use crate::cluster::peer_node::VERSION;
use crate::kept::state::{Kept, RENEWALS_PER_TIMEOUT};
use crate::model::moving::Holding;

/// Interval at which a question checks whether journals were adopted meanwhile. A new question then finds their sessions.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A client whose session is looked for.
#[derive(Deserialize, Serialize)]
struct QueriedClient {
    client: String,
    user: Option<String>,
}

/// The answer of a node.
#[derive(Deserialize, Serialize)]
struct Answer {
    node: String,
    /// The node's journal.
    journal: String,
    /// For each copy of a session that the node has: the client's index in the question, the kind of the copy, and the
    /// number of the session's moves.
    found: Vec<(usize, Holding, u32)>,
}

/// The session of a client, or a copy of it, at another node.
#[derive(Clone, Debug)]
pub(super) struct SessionCopy {
    pub(super) node: String,
    pub(super) journal: String,
    pub(super) holding: Holding,
    pub(super) moves: u32,
}

/// The answers to the questions of one message.
#[derive(Default)]
struct OpenQuestion {
    /// By journal.
    answers: BTreeMap<String, Answer>,
    wake: Option<oneshot::LocalSender<()>>,
}

/// The open questions, by number. Each round has its own number, because a late answer lacks sessions that were adopted
/// since.
#[derive(Default)]
pub(super) struct OpenQuestions {
    next: Cell<u64>,
    open: RefCell<BTreeMap<u64, OpenQuestion>>,
}

/// Receives the questions of other nodes, and their answers.
pub(super) fn listen(node: &Rc<Node>, rounds: &Rc<OpenQuestions>) {
    let of_answers = rounds.clone();
    let inbox = format!("{}.*", node.inbox("find"));
    node.client.subscribe(&inbox, None, move |message| handle_answer(&of_answers, &message));
    let own = node.clone();
    node.client.subscribe(&subject(node), None, move |message| handle_question(&own, &message));
}

fn subject(node: &Node) -> String {
    node.subject(&format!("find.{VERSION}"))
}

/// Asks all nodes once. Returns the copies of each client's session at other nodes, and whether all nodes answered.
pub(super) async fn ask_all(
    (node, kept): (&Node, &Kept),
    rounds: &OpenQuestions,
    clients: &[Identity],
) -> (Vec<Vec<SessionCopy>>, bool) {
    // Read before the question is sent: a journal missing from this list was adopted earlier, so the question finds its
    // sessions.
    let journals = kept.other_journals();
    let number = rounds.next.get();
    rounds.next.set(number + 1);
    rounds.open.borrow_mut().insert(number, OpenQuestion::default());
    let sought = clients.iter().map(|Identity { client, user }| QueriedClient {
        client: client.to_string(),
        user: user.as_deref().map(str::to_owned),
    });
    let payload = serde_json::to_vec(&sought.collect::<Vec<_>>()).unwrap_or_default();
    // If the message is lost, the question is repeated.
    let _ = node.client.publish(
        &subject(node),
        Some(&format!("{}.{number}", node.inbox("find"))),
        None,
        &payload,
    );
    let until = now() + node.timeout / RENEWALS_PER_TIMEOUT;
    let is_complete = loop {
        let changed = {
            let mut rounds = rounds.open.borrow_mut();
            let round = rounds.entry(number).or_default();
            if is_complete(round, journals.as_ref()) {
                break true;
            }
            let (sender, receiver) = oneshot::local();
            round.wake = Some(sender);
            receiver
        };
        let wait = until.saturating_sub(now()).min(POLL_INTERVAL);
        if let Either::Right(()) = select(changed, sleep(wait)).await
            && (now() >= until || kept.other_journals() != journals)
        {
            break false;
        }
    };
    let mut answers = rounds.open.borrow_mut().remove(&number).unwrap_or_default().answers;
    answers.remove(&kept.own_journal().map(|journal| journal.to_string()).unwrap_or_default());
    let mut all = vec![Vec::new(); clients.len()];
    for Answer { node, journal, found } in answers.into_values() {
        for (place, holding, moves) in found {
            let (node, journal) = (node.clone(), journal.clone());
            let found = SessionCopy { node, journal, holding, moves };
            all.get_mut(place).into_iter().for_each(|copies| copies.push(found.clone()));
        }
    }
    (all, is_complete)
}

fn is_complete(round: &OpenQuestion, journals: Option<&BTreeSet<String>>) -> bool {
    journals.is_some_and(|all| all.iter().all(|journal| round.answers.contains_key(journal)))
}

/// Handles an answer.
fn handle_answer(rounds: &OpenQuestions, message: &Message<'_>) {
    let mut rounds = rounds.open.borrow_mut();
    let round = answered_request(message).and_then(|number| rounds.get_mut(&number));
    let answer = serde_json::from_slice::<Answer>(message.payload);
    let (Some(round), Ok(answer)) = (round, answer) else { return };
    round.answers.insert(answer.journal.clone(), answer);
    if let Some(wake) = round.wake.take() {
        wake.send(());
    }
}

/// Answers the question of a node.
fn handle_question(node: &Rc<Node>, message: &Message<'_>) {
    let kept = node.context.kept.as_ref().filter(|kept| kept.is_open());
    let sought = serde_json::from_slice::<Vec<QueriedClient>>(message.payload);
    let (Some(journal), Some(reply), Ok(sought)) =
        (kept.and_then(|kept| kept.own_journal()), message.reply, sought)
    else {
        return;
    };
    let (own, reply) = (node.clone(), reply.to_owned());
    // If the processor is full, the other node repeats its question.
    let _ = node.context.stages.control.dispatch(move |_| async move {
        let mut found = Vec::new();
        let lately = now().saturating_sub(own.timeout / 2);
        for (place, QueriedClient { client, user }) in sought.into_iter().enumerate() {
            let client = Identity { client: client.into(), user: user.map(Into::into) };
            match own.context.stages.sessions.holding(client.clone()).await {
                Ok(holding) => {
                    let passed = || own.peers.moves.ended_since(&client, lately);
                    let holding = holding.or_else(|| passed().map(|moves| (Holding::Given, moves)));
                    found.extend(holding.map(|(holding, moves)| (place, holding, moves)));
                }
                Err(_) => return,
            }
        }
        let answer = Answer { node: own.name.to_string(), journal: journal.to_string(), found };
        let payload = serde_json::to_vec(&answer).unwrap_or_default();
        let _ = own.client.publish(&reply, None, None, &payload);
    });
}
