//! Finds the node that has a client's kept session, before a client that has none here gets a new one.
//!
//! All nodes are asked. While a node does not answer and its journal is not adopted, it may have the session.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use phalanx::shutdown::{draining, is_draining};
use phalanx::sync::oneshot;
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{select, sleep};
use phalanx_nats::Message;
use serde::{Deserialize, Serialize};

use crate::access::Identity;
use crate::cluster::node::Node;
use crate::cluster::other::VERSION;
use crate::cluster::takeover::{MAX_AT_ONCE, MAX_BYTES};
use crate::kept::questions::{Question, Whereabouts};
use crate::kept::state::{Kept, RENEWALS};

/// Interval at which a question looks whether sessions were adopted meanwhile, which a new one finds.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// A client whose session is looked for.
#[derive(Deserialize, Serialize)]
struct Sought {
    client: String,
    user: Option<String>,
}

/// The answer of a node.
#[derive(Deserialize, Serialize)]
struct Answer {
    /// The node's journal.
    journal: String,
    /// The places of the clients whose sessions it has.
    found: Vec<usize>,
}

/// The answers to the questions of one message.
#[derive(Default)]
struct Round {
    /// By journal.
    answers: BTreeMap<String, Vec<usize>>,
    wake: Option<oneshot::LocalSender<()>>,
}

/// The questions that wait for answers, by number. Each round has another number, because a late answer misses
/// the sessions that were adopted since.
#[derive(Default)]
struct Rounds {
    next: Cell<u64>,
    open: RefCell<BTreeMap<u64, Round>>,
}

/// Asks the questions of this node's connections, and answers those of other nodes, until shutdown.
pub(super) async fn serve(node: Rc<Node>) {
    let Some(kept) = node.context.kept.clone() else { return };
    let (rounds, inbox) = (Rc::new(Rounds::default()), inbox(&node));
    let of_answers = rounds.clone();
    node.client.subscribe(&format!("{inbox}.*"), None, move |own| answered(&of_answers, &own));
    let own = node.clone();
    node.client.subscribe(&subject(&node), None, move |message| answer(&own, &message));
    loop {
        let changed = kept.questions.changed();
        loop {
            let questions = kept.questions.take(MAX_AT_ONCE, MAX_BYTES);
            if questions.is_empty() {
                break;
            }
            let (own, rounds) = (node.clone(), rounds.clone());
            // If the processor is full, the questions are not answered.
            let control = node.context.stages.control;
            let _ = control.dispatch(move |_| async move {
                let Some(kept) = own.context.kept.clone() else { return };
                ask((&own, &kept), &rounds, questions).await;
            });
        }
        if let Either::Right(()) = select(changed, Box::pin(draining())).await {
            return;
        }
    }
}

fn subject(node: &Node) -> String {
    node.subject(&format!("find.{VERSION}"))
}

fn inbox(node: &Node) -> String {
    node.subject(&format!("inbox.{}.find", node.start))
}

/// Asks all nodes until each question is answered, for at most the timeout.
async fn ask((node, kept): (&Node, &Kept), rounds: &Rounds, mut questions: Vec<Question>) {
    let limit = now() + node.timeout;
    while !questions.is_empty() {
        let (found, is_complete) = round((node, kept), rounds, &questions).await;
        let is_over = now() >= limit || is_draining();
        let mut left = Vec::new();
        for (place, question) in questions.into_iter().enumerate() {
            let whereabouts = match found.contains(&place) {
                true => Whereabouts::Elsewhere,
                false if is_complete => Whereabouts::NotElsewhere,
                false if is_over => Whereabouts::Unknown,
                false => {
                    left.push(question);
                    continue;
                }
            };
            question.answer.send(whereabouts);
        }
        questions = left;
    }
}

/// Asks all nodes once. Returns the places of the clients whose sessions other nodes have, and whether all nodes answered.
async fn round(
    (node, kept): (&Node, &Kept),
    rounds: &Rounds,
    questions: &[Question],
) -> (Vec<usize>, bool) {
    // Before the question is sent: a journal that is missing here was adopted before, and its sessions are found.
    let journals = kept.journals();
    let number = rounds.next.get();
    rounds.next.set(number + 1);
    rounds.open.borrow_mut().insert(number, Round::default());
    let sought = questions.iter().map(|Question { client: Identity { client, user }, .. }| {
        Sought { client: client.to_string(), user: user.as_deref().map(str::to_owned) }
    });
    let payload = serde_json::to_vec(&sought.collect::<Vec<_>>()).unwrap_or_default();
    // A lost one is repeated.
    let _ = node.client.publish(
        &subject(node),
        Some(&format!("{}.{number}", inbox(node))),
        None,
        &payload,
    );
    let until = now() + node.timeout / RENEWALS;
    let is_complete = loop {
        let changed = {
            let mut rounds = rounds.open.borrow_mut();
            let round = rounds.entry(number).or_default();
            let has_answered = |journal: &String| round.answers.contains_key(journal);
            if journals.as_ref().is_some_and(|all| all.iter().all(has_answered)) {
                break true;
            }
            let (sender, receiver) = oneshot::local();
            round.wake = Some(sender);
            receiver
        };
        let wait = until.saturating_sub(now()).min(LOOK_INTERVAL);
        if let Either::Right(()) = select(changed, sleep(wait)).await
            && (now() >= until || kept.journals() != journals)
        {
            break false;
        }
    };
    let mut answers = rounds.open.borrow_mut().remove(&number).unwrap_or_default().answers;
    answers.remove(&kept.own().map(|own| own.to_string()).unwrap_or_default());
    (answers.into_values().flatten().collect(), is_complete)
}

/// An answer arrived.
fn answered(rounds: &Rounds, message: &Message<'_>) {
    let number = message.subject.rsplit('.').next().and_then(|number| number.parse().ok());
    let mut rounds = rounds.open.borrow_mut();
    let round = number.and_then(|number: u64| rounds.get_mut(&number));
    let answer = serde_json::from_slice::<Answer>(message.payload);
    let (Some(round), Ok(Answer { journal, found })) = (round, answer) else { return };
    round.answers.insert(journal, found);
    if let Some(wake) = round.wake.take() {
        wake.send(());
    }
}

/// A node asks.
fn answer(node: &Rc<Node>, message: &Message<'_>) {
    let kept = node.context.kept.as_ref().filter(|kept| kept.is_open());
    let sought = serde_json::from_slice::<Vec<Sought>>(message.payload);
    let (Some(journal), Some(reply), Ok(sought)) =
        (kept.and_then(|kept| kept.own()), message.reply, sought)
    else {
        return;
    };
    let (own, reply) = (node.clone(), reply.to_owned());
    // If the processor is full, the other node repeats its question.
    let _ = node.context.stages.control.dispatch(move |_| async move {
        let mut found = Vec::new();
        for (place, Sought { client, user }) in sought.into_iter().enumerate() {
            let client = Identity { client: client.into(), user: user.map(Into::into) };
            match own.context.stages.sessions.has_session(client).await {
                Ok(true) => found.push(place),
                Ok(false) => (),
                Err(_) => return,
            }
        }
        let answer = Answer { journal: journal.to_string(), found };
        let payload = serde_json::to_vec(&answer).unwrap_or_default();
        let _ = own.client.publish(&reply, None, None, &payload);
    });
}
