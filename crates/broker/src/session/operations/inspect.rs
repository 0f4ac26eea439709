//! Lists sessions for the admin pages, and disconnects clients for an operator.

use std::sync::{Arc, Once};

use phalanx::runtime::report;
use phalanx::{Call, CallError};
use phalanx_mqtt::Reason;

use crate::access::Identity;
use crate::model::session::Session;
use crate::requests::Routes;
use crate::session::operations::SessionStage;
use crate::session::partition::inspect::{ClientQuery, ClientView, Kick};
use crate::session::state::effects::Effects;

/// Limits the report that another user's session was kept to one line per process.
static OTHER_USER: Once = Once::new();

impl SessionStage {
    /// The number of partitions.
    pub(crate) fn partitions(self) -> usize {
        self.1
    }

    /// Lists the clients of a partition: see [`Sessions::list`].
    pub(crate) fn list(
        self,
        partition: usize,
        from: usize,
        query: ClientQuery,
    ) -> Call<(Vec<ClientView>, Option<usize>)> {
        self.0.call_partition(partition, move |sessions| async move {
            sessions.with(|sessions| sessions.list(from, &query))
        })
    }

    /// Describes one client with its subscriptions.
    pub(crate) async fn describe(self, client: String) -> Result<Option<ClientView>, CallError> {
        let client = Arc::from(client);
        let described = self.call_client(Arc::clone(&client), move |sessions| async move {
            sessions.with(|sessions| {
                let slot = sessions.names.get(&client).copied()?;
                sessions.at(slot).map(|session| ClientView::of(session, true))
            })
        });
        described.await
    }

    /// Ends the selected connections of a partition. Returns their number.
    pub(crate) fn kick(self, partition: usize, kick: Kick) -> Call<usize> {
        self.0.call_partition(partition, move |sessions| async move {
            sessions.with(|sessions| sessions.kick(&kick))
        })
    }

    /// The client identifiers of a partition that have this prefix.
    pub(crate) fn clients_with(
        self,
        partition: usize,
        prefix: &'static str,
    ) -> Call<Vec<Arc<str>>> {
        self.0.call_partition(partition, move |sessions| async move {
            sessions.with(|sessions| sessions.clients_with(prefix))
        })
    }

    /// The keys of a client's subscriptions.
    pub(crate) async fn subscription_keys(
        self,
        client: Arc<str>,
    ) -> Result<Vec<Box<str>>, CallError> {
        let keys = self.call_client(client.clone(), move |sessions| async move {
            sessions.with(|sessions| sessions.subscription_keys(&client))
        });
        keys.await
    }

    /// Ends a session with its connection. Returns whether it existed.
    pub(crate) fn end_session(
        self,
        client: String,
        reason: Reason,
        routes: Routes,
    ) -> impl Future<Output = Result<bool, CallError>> {
        self.end_session_if(client.into(), |_| true, reason, routes)
    }

    /// Ends a session with its connection, unless it belongs to another user. Returns whether it ended.
    pub(crate) fn end_session_of(
        self,
        owner: Identity,
        reason: Reason,
        routes: Routes,
    ) -> impl Future<Output = Result<bool, CallError>> {
        let user = owner.user;
        let is_meant = move |session: &Session| {
            let is_owner = session.user == user;
            if !is_owner {
                OTHER_USER.call_once(|| {
                    let (client, own) = (&session.client_id, &session.user);
                    report(format_args!(
                        "cluster: the client {client:?} of user {user:?} connected to another node; the \
                         session of user {own:?} stays here. Each user needs own client identifiers. Later cases are \
                         not reported"
                    ));
                });
            }
            is_owner
        };
        self.end_session_if(owner.client, is_meant, reason, routes)
    }

    fn end_session_if(
        self,
        client: Arc<str>,
        is_meant: impl FnOnce(&Session) -> bool + Send + 'static,
        reason: Reason,
        routes: Routes,
    ) -> impl Future<Output = Result<bool, CallError>> {
        self.call_client(Arc::clone(&client), move |sessions| async move {
            let mut effects = Effects::default();
            let ended = sessions
                .with(|sessions| sessions.end_session(&client, is_meant, reason, &mut effects));
            self.apply_effects(&sessions, effects, routes).await;
            ended
        })
    }
}
