//! The services that a server accepts: services, and services that make them.

use std::any::Any;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use tower_service::Service;

/// A tower service for requests of axum: a [`Router`], a `MethodRouter`, or either within layers. Its futures need not
/// be `Send`.
pub trait HttpService:
    Service<Request, Response = Response, Error = Infallible, Future: 'static> + Clone + 'static
{
}

impl<S> HttpService for S
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + 'static,
    S::Future: 'static,
{
}

/// The services that [`serve`](crate::serve) accepts. `M` tells the two kinds apart and is inferred:
///
/// - An [`HttpService`]: each connection gets a clone.
/// - A service that makes one for each client's address, such as
///   `Router::into_make_service_with_connect_info::<SocketAddr>`, a method that axum's feature `tokio` adds.
pub trait Services<M>: Clone + Send + 'static {
    /// The service of a connection.
    type Service: HttpService;

    /// Whether a connection may move to another processor between two requests, and then gets another service.
    const CONNECTIONS_MOVE: bool;

    /// Prepares for many calls of [`service`](Self::service).
    #[must_use]
    fn prepared(self) -> Self {
        self
    }

    /// Makes the service of a new connection from `peer`.
    fn service(&mut self, peer: SocketAddr) -> Pin<Box<dyn Future<Output = Self::Service>>>;
}

/// The kind of a service for requests.
#[derive(Debug)]
pub struct ForRequests(());

/// The kind of a service for connections.
#[derive(Debug)]
pub struct ForConnections(());

impl<S: HttpService + Send> Services<ForRequests> for S {
    type Service = S;

    const CONNECTIONS_MOVE: bool = true;

    fn prepared(mut self) -> Self {
        // Builds the routes now instead of in each request, as `axum::serve` does.
        if let Some(router) = (&mut self as &mut dyn Any).downcast_mut::<Router>() {
            *router = std::mem::take(router).with_state(());
        }
        self
    }

    fn service(&mut self, _: SocketAddr) -> Pin<Box<dyn Future<Output = S>>> {
        Box::pin(std::future::ready(self.clone()))
    }
}

impl<M, S> Services<ForConnections> for M
where
    M: Service<SocketAddr, Response = S, Error = Infallible> + Clone + Send + 'static,
    M::Future: 'static,
    S: HttpService,
{
    type Service = S;

    // The program may count its calls.
    const CONNECTIONS_MOVE: bool = false;

    fn service(&mut self, peer: SocketAddr) -> Pin<Box<dyn Future<Output = S>>> {
        let mut maker = self.clone();
        Box::pin(async move {
            let Ok(()) = poll_fn(|context| maker.poll_ready(context)).await;
            let Ok(service) = maker.call(peer).await;
            service
        })
    }
}
