//! Sessions that this node gave away without learning whether they arrived.

use std::rc::Rc;
use std::sync::Arc;

use phalanx::shutdown::draining;
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{CallError, select, sleep};

use crate::access::Identity;
use crate::cluster::node::Node;
use crate::cluster::session_query::{OpenQuestions, SessionCopy, ask_all};
use crate::kept::state::RENEWALS_PER_TIMEOUT;
use crate::model::moving::Holding;

/// Asks the other nodes about these sessions, until shutdown.
pub(in crate::cluster) async fn resolve(node: Rc<Node>, rounds: Rc<OpenQuestions>) {
    let Some(kept) = node.context.kept.clone() else { return };
    loop {
        let given = node.peers.moves.given_before(now().saturating_sub(node.timeout / 2));
        if !given.is_empty() && kept.is_open() {
            let clients: Vec<_> = given.iter().map(|(client, _)| client.clone()).collect();
            let (found, is_complete) = ask_all((&node, &kept), &rounds, &clients).await;
            for ((client, token), found) in given.into_iter().zip(found) {
                // If the broker is full, the next round decides.
                let _ = decide(&node, (client, token), &found, is_complete).await;
            }
        }
        if let Either::Right(()) =
            select(sleep(node.timeout / RENEWALS_PER_TIMEOUT), draining()).await
        {
            return;
        }
    }
}

/// Keeps or removes the copy of a session that was given away by the move with this token, depending on the answers.
async fn decide(
    node: &Node,
    (client, token): (Identity, Arc<str>),
    found: &[SessionCopy],
    is_complete: bool,
) -> Result<(), CallError> {
    let (sessions, routing) = (node.context.stages.sessions, node.context.stages.routing);
    let Some((Holding::Given, moves)) = sessions.holding(client.clone()).await? else {
        node.peers.moves.remove_given(&client);
        return Ok(());
    };
    let later =
        found.iter().filter(|copy| copy.holding != Holding::Arriving).map(|copy| copy.moves);
    let later = later.filter(|other| *other > moves).max();
    let is_arriving = found.iter().any(|copy| copy.holding == Holding::Arriving);
    match later {
        Some(later) => _ = sessions.drop_given(client, later, routing).await?,
        None if is_complete && !is_arriving => _ = sessions.stay(client, token).await?,
        None => (),
    }
    Ok(())
}
