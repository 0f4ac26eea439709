//! Operations on the session of a client identifier. They find the session's partition.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;

use phalanx::runtime::processor;
use phalanx::stage::Partition;
use phalanx::time::now;
use phalanx::{Call, CallError};
use phalanx_mqtt::Reason;

use crate::access::Identity;
use crate::model::moving::Holding;
use crate::requests::Routes;
use crate::session::operations::{SessionStage, durable_within_timeout};
use crate::session::partition::Sessions;
use crate::session::partition::close::Closing;
use crate::session::partition::open::{Opened, Opening};

/// An operation on a partition. Boxed, because the calls are rare and the compiler would repeat two of them, 9,000 lines of
/// code before optimization, for every operation.
type AnyOperation =
    Box<dyn FnOnce(Partition<Sessions>) -> Pin<Box<dyn Future<Output = AnyResult>>> + Send>;

type AnyResult = Box<dyn Any + Send>;

impl SessionStage {
    /// The partition for new sessions of this processor's clients: one on this processor, if there is any.
    pub(in crate::session) fn own_partition(self) -> u16 {
        (processor() % self.1) as u16
    }

    /// Calls an operation on the partition of a client's session, or on an arbitrary one if the client has no session.
    pub(in crate::session) fn call_client<F, Fut, T>(
        self,
        client: Arc<str>,
        operation: F,
    ) -> impl Future<Output = Result<T, CallError>>
    where
        F: FnOnce(Partition<Sessions>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let any = |sessions| async move { Box::new(operation(sessions).await) as AnyResult };
        let called =
            self.call_client_with_any(client, Box::new(|sessions| Box::pin(any(sessions))));
        async move {
            let result = called.await.flatten()?;
            Ok(*result.downcast().expect("the result of the operation"))
        }
    }

    fn call_client_with_any(
        self,
        client: Arc<str>,
        operation: AnyOperation,
    ) -> Call<Result<AnyResult, CallError>> {
        let own = self.own_partition();
        self.0.call_partition(own.into(), move |sessions| async move {
            match sessions.with(|sessions| sessions.directory.find(&client)) {
                Some(other) if other != own => self.0.call_partition(other.into(), operation).await,
                _ => Ok(operation(sessions).await),
            }
        })
    }

    /// Which copy of a client's session this node has, and how often the session has moved. `None` unless the session
    /// belongs to the same user and outlives its connection.
    pub(crate) async fn holding(
        self,
        owner: Identity,
    ) -> Result<Option<(Holding, u32)>, CallError> {
        let holding = self.call_client(owner.client.clone(), move |sessions| async move {
            sessions.with(|sessions| sessions.holding(&owner, now()))
        });
        holding.await
    }

    /// Whether the owner has a session on this node that outlives its connection.
    pub(crate) async fn has_session(self, owner: Identity) -> Result<bool, CallError> {
        Ok(matches!(self.holding(owner).await?, Some((Holding::Has, _))))
    }

    /// Opens a session. A persistent session is on disk before its client is accepted. If the disk takes too long, the
    /// client is rejected and the session is detached again.
    pub(crate) fn open(self, opening: Opening, routes: Routes) -> Call<Result<Opened, Reason>> {
        self.open_in(self.own_partition(), opening, routes)
    }

    fn open_in(
        self,
        partition: u16,
        opening: Opening,
        routes: Routes,
    ) -> Call<Result<Opened, Reason>> {
        self.0.call_partition(partition.into(), move |sessions| async move {
            let claimed = sessions.with(|sessions| sessions.claim(&opening.client_id));
            if claimed != partition {
                let opened = self.open_in(claimed, opening, routes).await;
                return opened.unwrap_or(Err(Reason::SERVER_BUSY));
            }
            let (client, user) = (opening.client_id.clone(), opening.user.clone());
            let (opened, effects, lsn) = sessions.with(|sessions| {
                let opened = sessions.open(opening, now());
                sessions.release_departed();
                opened
            });
            self.apply_effects(&sessions, effects, routes).await;
            let opened = opened?;
            // The end of a session with a will is recorded only after the will was published.
            let ended = sessions.with(|sessions| sessions.directory.ended(&client));
            let lsn = lsn.max(ended);
            if durable_within_timeout(&sessions, lsn).await.is_err() {
                sessions.with(|sessions| sessions.refused_session(&client, user.as_deref()));
                let closing = Closing { will: false, expiry: None };
                self.leave(&sessions, (opened.key, opened.connection_id), closing, routes).await;
                return Err(Reason::SERVER_UNAVAILABLE);
            }
            Ok(opened)
        })
    }
}
