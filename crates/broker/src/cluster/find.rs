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
use crate::cluster::moving::Moves;
use crate::cluster::moving::arriving::start_move;
use crate::cluster::node::Node;
use crate::cluster::session_query::{OpenQuestions, POLL_INTERVAL, SessionCopy, ask_all};
use crate::cluster::takeover::{MAX_CLIENT_BYTES, MAX_CLIENTS};
use crate::kept::questions::{Question, SessionLocation};
use crate::kept::state::Kept;
use crate::model::moving::Holding;

/// Asks the questions of this node's connections, until shutdown.
pub(super) async fn serve(node: Rc<Node>, rounds: Rc<OpenQuestions>, moves: Rc<Moves>) {
    let Some(kept) = node.context.kept.clone() else { return };
    loop {
        let changed = kept.questions.changed();
        loop {
            let questions = kept.questions.take(MAX_CLIENTS, MAX_CLIENT_BYTES);
            if questions.is_empty() {
                break;
            }
            let (own, rounds, moves) = (node.clone(), rounds.clone(), moves.clone());
            // If the processor is full, the questions are not answered.
            let control = node.context.stages.control;
            let _ = control.dispatch(move |_| async move {
                let Some(kept) = own.context.kept.clone() else { return };
                answer_questions((&own, &kept), (&rounds, &moves), questions).await;
            });
        }
        if let Either::Right(()) = select(changed, Box::pin(draining())).await {
            return;
        }
    }
}

/// The next step for a question.
enum NextStep {
    Answer(SessionLocation),
    /// Move the session from this node.
    Move(SessionCopy),
    Wait,
}

/// Asks all nodes until each question is answered, or for the timeout since it was asked.
async fn answer_questions(
    (node, kept): (&Rc<Node>, &Kept),
    (rounds, moves): (&OpenQuestions, &Rc<Moves>),
    mut questions: Vec<Question>,
) {
    while !questions.is_empty() {
        let clients: Vec<_> = questions.iter().map(|question| question.client.clone()).collect();
        let (found, is_complete) = ask_all((node, kept), rounds, &clients).await;
        let mut left = Vec::new();
        for (question, found) in questions.into_iter().zip(found) {
            let is_over = now() >= question.asked_at + node.timeout || is_draining();
            match next_step((node, kept), &question.client, (&found, is_complete)).await {
                NextStep::Answer(whereabouts) => question.answer.send(whereabouts),
                NextStep::Move(from) if !is_over => {
                    if let Err(question) = start_move(node, moves, question, from) {
                        left.push(question);
                    }
                }
                _ if is_over => question.answer.send(SessionLocation::Unknown),
                _ => left.push(question),
            }
        }
        if !left.is_empty() && is_complete {
            // All nodes have answered, but a move between two of them is undecided.
            sleep(POLL_INTERVAL).await;
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
fn latest(found: &[SessionCopy]) -> Option<&SessionCopy> {
    found.iter().max_by_key(|copy| (copy.moves, copy.holding == Holding::Has))
}

/// Decides on a question from the nodes' answers.
async fn next_step(
    (node, kept): (&Node, &Kept),
    client: &Identity,
    (found, is_complete): (&[SessionCopy], bool),
) -> NextStep {
    let stages = node.context.stages;
    // Read after the answers, because the session may have arrived meanwhile.
    let Ok(own) = stages.sessions.holding(client.clone()).await else { return NextStep::Wait };
    let last = latest(found);
    let is_arriving = kept.is_arriving(&client.client);
    match (own, last) {
        (Some((Holding::Has, _)), _) if !is_arriving => NextStep::Answer(SessionLocation::Here),
        (Some((Holding::Arriving, _)), _) => NextStep::Wait,
        (Some((Holding::Has, moves)), last) => match last {
            Some(last) if last.holding == Holding::Has && last.moves >= moves => {
                NextStep::Answer(SessionLocation::OtherNode)
            }
            _ if is_complete => NextStep::Answer(SessionLocation::NoOtherNode),
            _ => NextStep::Wait,
        },
        // This node gave the session away, but it is not known yet whether the other node has it.
        (Some((Holding::Given, moves)), last)
            if last.is_none_or(|last| last.moves <= moves || last.holding != Holding::Has) =>
        {
            NextStep::Wait
        }
        (_, Some(last)) if last.holding == Holding::Has => NextStep::Move(last.clone()),
        (_, Some(_)) => NextStep::Wait,
        (_, None) if is_complete => NextStep::Answer(SessionLocation::NoOtherNode),
        (_, None) => NextStep::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_moved_more_often_counts_before_one_that_a_node_has() {
        let of = |(node, holding, moves): (&str, _, _)| SessionCopy {
            node: node.into(),
            journal: format!("{node}.1"),
            holding,
            moves,
        };
        let node = |all: &[(&str, Holding, u32)]| {
            let all: Vec<_> = all.iter().copied().map(of).collect();
            latest(&all).map(|copy| copy.node.clone())
        };
        let (has, given) = (Holding::Has, Holding::Given);
        assert_eq!(node(&[]), None);
        assert_eq!(node(&[("x", has, 0), ("h", given, 3)]), Some("h".into()));
        assert_eq!(node(&[("h", given, 3), ("n", has, 3)]), Some("n".into()));
        assert_eq!(node(&[("n", has, 4), ("h", given, 3), ("x", has, 0)]), Some("n".into()));
    }
}
