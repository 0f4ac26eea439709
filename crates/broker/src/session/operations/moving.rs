//! The move of a session from one node of the cluster to another: see `cluster/moving/mod.rs`.

use std::sync::Arc;

use phalanx::CallError;
use phalanx::stage::Partition;
use phalanx::time::now;
use phalanx_store::Entry;

use crate::access::Identity;
use crate::durable::Lsn;
use crate::durable::recovery::RecoveredSession;
use crate::limits::places::Place;
use crate::lock::lock;
use crate::requests::Routes;
use crate::session::operations::SessionStage;
use crate::session::partition::Sessions;
use crate::session::partition::install::Offered;
use crate::session::partition::moving::{Left, NotNow};
use crate::session::state::effects::Effects;

impl SessionStage {
    /// Reserves a place for a session that is to move here: see [`Sessions::reserve`].
    pub(crate) async fn reserve(
        self,
        owner: Identity,
    ) -> Result<Result<Option<Place>, NotNow>, CallError> {
        let reserved = self.call_client(owner.client.clone(), move |sessions| async move {
            sessions.with(|sessions| sessions.reserve(&owner))
        });
        reserved.await
    }

    /// Begins to move a client's session to another node, and disconnects the client: see [`Sessions::leave`].
    pub(crate) async fn begin_leaving(
        self,
        owner: Identity,
        (token, leaves): (Arc<str>, bool),
        routes: Routes,
    ) -> Result<Result<Left, NotNow>, CallError> {
        let left = self.call_client(owner.client.clone(), move |sessions| async move {
            let leave = |sessions: &mut Sessions| sessions.leave(&owner, (&token, leaves), now());
            let (left, effects) = sessions.with(leave);
            self.apply_effects(&sessions, effects, routes).await;
            left
        });
        left.await
    }

    /// Gives a session to another node: see [`Sessions::give`].
    pub(crate) async fn give(
        self,
        owner: Identity,
        token: Arc<str>,
        nodes: Vec<String>,
    ) -> Result<Result<(Entry, Lsn), NotNow>, CallError> {
        let given = self.call_client(owner.client.clone(), move |sessions| async move {
            sessions.with(|sessions| sessions.give(&owner, &token, (&nodes, now())))
        });
        given.await
    }

    /// Cancels the move of a session from this node: see [`Sessions::stay`].
    pub(crate) async fn stay(self, owner: Identity, token: Arc<str>) -> Result<bool, CallError> {
        let stays = self.call_client(owner.client.clone(), move |sessions| async move {
            sessions.with(|sessions| sessions.stay(&owner, &token, now()))
        });
        stays.await
    }

    /// Ends the copy of a session that moved: see [`Sessions::drop_given`].
    pub(crate) async fn drop_given(
        self,
        owner: Identity,
        moves: u32,
        routes: Routes,
    ) -> Result<bool, CallError> {
        self.change(owner, routes, move |sessions, owner, effects| {
            sessions.drop_given(owner, moves, effects)
        })
        .await
    }

    /// Ends the copy of a session that arrives: see [`Sessions::give_up`].
    pub(crate) async fn give_up(
        self,
        owner: Identity,
        token: Arc<str>,
        routes: Routes,
    ) -> Result<(), CallError> {
        self.change(owner, routes, move |sessions, owner, effects| {
            sessions.give_up(owner, &token, effects);
        })
        .await
    }

    /// Completes a session with the state of its holder: see [`Sessions::arrive`]. A state that is not used is offered again.
    pub(crate) async fn arrive(
        self,
        owner: Identity,
        token: Arc<str>,
        (offered, nodes): (Offered<RecoveredSession>, Vec<String>),
    ) -> Result<Result<Lsn, NotNow>, CallError> {
        let arrived = self.call_client(owner.client.clone(), move |sessions| async move {
            let mut offered = lock(&offered);
            sessions.with(|sessions| sessions.arrive(&owner, &token, (&mut offered, &nodes), now()))
        });
        arrived.await
    }

    /// Completes the move of a session to this node: see [`Sessions::arrived`].
    pub(crate) async fn arrived(self, owner: Identity, token: Arc<str>) -> Result<bool, CallError> {
        let arrived = self.call_client(owner.client.clone(), move |sessions| async move {
            sessions.with(|sessions| sessions.arrived(&owner, &token))
        });
        arrived.await
    }

    /// Changes the session of a client, and applies the effects.
    async fn change<T: Send + 'static>(
        self,
        owner: Identity,
        routes: Routes,
        change: impl FnOnce(&mut Sessions, &Identity, &mut Effects) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let changed = self.call_client(
            owner.client.clone(),
            move |sessions: Partition<Sessions>| async move {
                let mut effects = Effects::default();
                let done = sessions.with(|sessions| change(sessions, &owner, &mut effects));
                self.apply_effects(&sessions, effects, routes).await;
                done
            },
        );
        changed.await
    }
}
