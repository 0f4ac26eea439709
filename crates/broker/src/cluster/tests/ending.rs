//! Sessions of clients that connected to another node.

use std::pin::pin;

use phalanx::task::Either;
use phalanx::{select, sleep};
use phalanx_mqtt::{Reason, Version};

use crate::cluster::ending::Ending;
use crate::cluster::tests::{MAX_OPERATIONS, run};
use crate::peers::{Claim, Peers};
use crate::session::operations::RETRY_DELAY;
use crate::session::partition::open::Opening;
use crate::session::state::effects::Pulled;

#[test]
fn sessions_end_after_a_moment_in_which_the_broker_is_full() {
    run(|program| {
        Box::pin(async move {
            let (context, peers) = (program.context.clone(), Peers::new("a"));
            let ending = Ending::new(context.clone(), peers, "a".into());
            let stages = context.stages;
            let opening = Opening {
                client_id: "x".into(),
                origin: None,
                user: None,
                version: Version::V5,
                clean_start: false,
                expiry: 60,
                receive_maximum: 1,
                most: 1000,
                must_exist: false,
                most_aliases: 0,
                will: None,
            };
            let opened = stages.sessions.open(opening, stages.routing).await.unwrap().unwrap();
            let (node, client, user) = ("b".into(), "x".into(), None);
            let claim = Claim { at: 1, node, start: String::new(), client, user, number: 0 };
            let wait = |_| stages.control.call(|_| sleep(RETRY_DELAY));
            let waiting: Vec<_> = (0..MAX_OPERATIONS).map(wait).collect();
            ending.end(claim);
            ending.retry();
            drop(waiting);
            sleep(RETRY_DELAY * 2).await;
            let mut pulled =
                pin!(stages.sessions.pull((opened.key, opened.connection_id), Vec::new()));
            let waited = select(pulled.as_mut(), sleep(RETRY_DELAY)).await;
            assert!(matches!(waited, Either::Right(())), "there was room for the claim");
            ending.retry();
            let waited = select(pulled, sleep(RETRY_DELAY * 3)).await;
            let Either::Left(Ok(pulled)) = waited else { panic!("the session has not ended") };
            assert!(matches!(pulled, Pulled::Closed(Reason::SESSION_TAKEN_OVER)));
        })
    });
}
