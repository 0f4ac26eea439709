//! Finds a client's kept session at other nodes before the client gets a new one here. A session that is found moves
//! here.
//!
//! All nodes are asked. A node that does not answer may have the session until its journal is adopted.

use std::rc::Rc;

use phalanx::shutdown::{draining, is_draining};
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{select, sleep};

use crate::access::Identity;
use crate::cluster::asking::{Found, LOOK_INTERVAL, Rounds, round};
use crate::cluster::moving::Moves;
use crate::cluster::moving::arriving::arrive;
use crate::cluster::node::Node;
use crate::cluster::takeover::{MAX_AT_ONCE, MAX_BYTES};
use crate::kept::questions::{Question, Whereabouts};
use crate::kept::state::Kept;
use crate::model::moving::Holding;

/// Asks the questions of this node's connections, until shutdown.
pub(super) async fn serve(node: Rc<Node>, rounds: Rc<Rounds>, moves: Rc<Moves>) {
    let Some(kept) = node.context.kept.clone() else { return };
    loop {
        let changed = kept.questions.changed();
        loop {
            let questions = kept.questions.take(MAX_AT_ONCE, MAX_BYTES);
            if questions.is_empty() {
                break;
            }
            let (own, rounds, moves) = (node.clone(), rounds.clone(), moves.clone());
            // If the processor is full, the questions are not answered.
            let control = node.context.stages.control;
            let _ = control.dispatch(move |_| async move {
                let Some(kept) = own.context.kept.clone() else { return };
                ask((&own, &kept), (&rounds, &moves), questions).await;
            });
        }
        if let Either::Right(()) = select(changed, Box::pin(draining())).await {
            return;
        }
    }
}

/// The next step for a question.
enum Next {
    Answer(Whereabouts),
    /// Move the session from this node.
    Move(Found),
    Wait,
}

/// Asks all nodes until each question is answered, or for the timeout since it was asked.
async fn ask(
    (node, kept): (&Rc<Node>, &Kept),
    (rounds, moves): (&Rounds, &Rc<Moves>),
    mut questions: Vec<Question>,
) {
    while !questions.is_empty() {
        let clients: Vec<_> = questions.iter().map(|own| own.client.clone()).collect();
        let (found, is_complete) = round((node, kept), rounds, &clients).await;
        let mut left = Vec::new();
        for (question, found) in questions.into_iter().zip(found) {
            let is_over = now() >= question.asked + node.timeout || is_draining();
            match next((node, kept), &question.client, (&found, is_complete)).await {
                Next::Answer(whereabouts) => question.answer.send(whereabouts),
                Next::Move(from) if !is_over => {
                    if let Err(question) = arrive(node, moves, question, from) {
                        left.push(question);
                    }
                }
                _ if is_over => question.answer.send(Whereabouts::Unknown),
                _ => left.push(question),
            }
        }
        if !left.is_empty() && is_complete {
            // All nodes have answered, but a move between two of them is undecided.
            sleep(LOOK_INTERVAL).await;
        }
        questions = left;
    }
}

/// The copy that has moved most often. It may be one that a node gave away and no longer has ([`Moves::passed_since`]),
/// although another node has a session that moved less often. There are two such cases:
/// - The client began a new session there with a clean start. The question then waits until the former copy is forgotten,
///   for at most half of the timeout since that copy ended.
/// - That node missed the claim of a later session, which is arriving at a third node. The third node received the question
///   before its copy. If the earlier session moved here, its claim would end the later one.
///
/// The answers do not tell these cases apart, so the question waits in both.
///
/// [`Moves::passed_since`]: crate::peers::moves::Moves::passed_since
fn latest(found: &[Found]) -> Option<&Found> {
    found.iter().max_by_key(|own| (own.moves, own.holding == Holding::Has))
}

/// Decides on a question from the nodes' answers.
async fn next(
    (node, kept): (&Node, &Kept),
    client: &Identity,
    (found, is_complete): (&[Found], bool),
) -> Next {
    let stages = node.context.stages;
    // Read after the answers, because the session may have arrived meanwhile.
    let Ok(own) = stages.sessions.holding(client.clone()).await else { return Next::Wait };
    let last = latest(found);
    let is_arriving = kept.is_arriving(&client.client);
    match (own, last) {
        (Some((Holding::Has, _)), _) if !is_arriving => Next::Answer(Whereabouts::Here),
        (Some((Holding::Arriving, _)), _) => Next::Wait,
        (Some((Holding::Has, moves)), last) => match last {
            Some(last) if last.holding == Holding::Has && last.moves >= moves => {
                Next::Answer(Whereabouts::Elsewhere)
            }
            _ if is_complete => Next::Answer(Whereabouts::NotElsewhere),
            _ => Next::Wait,
        },
        // This node gave the session away, but it is not known yet whether the other node has it.
        (Some((Holding::Given, moves)), last)
            if last.is_none_or(|last| last.moves <= moves || last.holding != Holding::Has) =>
        {
            Next::Wait
        }
        (_, Some(last)) if last.holding == Holding::Has => Next::Move(last.clone()),
        (_, Some(_)) => Next::Wait,
        (_, None) if is_complete => Next::Answer(Whereabouts::NotElsewhere),
        (_, None) => Next::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_moved_more_often_counts_before_one_that_a_node_has() {
        let of = |(node, holding, moves): (&str, _, _)| Found {
            node: node.into(),
            journal: format!("{node}.1"),
            holding,
            moves,
        };
        let node = |all: &[(&str, Holding, u32)]| {
            let all: Vec<_> = all.iter().copied().map(of).collect();
            latest(&all).map(|own| own.node.clone())
        };
        let (has, given) = (Holding::Has, Holding::Given);
        assert_eq!(node(&[]), None);
        assert_eq!(node(&[("x", has, 0), ("h", given, 3)]), Some("h".into()));
        assert_eq!(node(&[("h", given, 3), ("n", has, 3)]), Some("n".into()));
        assert_eq!(node(&[("n", has, 4), ("h", given, 3), ("x", has, 0)]), Some("n".into()));
    }
}
