//! Admin pages that the program adds to those of the runtime.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use super::http::{Answer, Request};

/// A request for an admin page of the program.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AdminRequest {
    /// The method, such as `GET`.
    pub method: String,
    /// The path after the prefix of the pages.
    pub path: String,
    /// The text after `?`, percent-encoded.
    pub query: String,
    /// The value of `Authorization`.
    pub authorization: Option<String>,
    /// The body; at most 1 MiB.
    pub body: Vec<u8>,
}

/// The response to an [`AdminRequest`].
#[derive(Clone, Debug)]
pub struct AdminResponse {
    status: &'static str,
    kind: &'static str,
    body: Vec<u8>,
}

impl AdminResponse {
    /// Creates a response with a status such as `200 OK`, and a media type.
    pub fn new(status: &'static str, kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, kind, body: body.into() }
    }
}

type Response = Pin<Box<dyn Future<Output = AdminResponse>>>;
type Handler = Arc<dyn Fn(AdminRequest) -> Response + Send + Sync>;

/// The pages by their prefixes.
#[derive(Clone, Default)]
pub(crate) struct CustomPages(Vec<(&'static str, Handler)>);

impl CustomPages {
    pub(crate) fn add<F: Future<Output = AdminResponse> + 'static>(
        &mut self,
        prefix: &'static str,
        handler: impl Fn(AdminRequest) -> F + Send + Sync + 'static,
    ) {
        self.0.push((prefix, Arc::new(move |request| Box::pin(handler(request)))));
    }

    /// The response to a request for one of these pages.
    pub(super) async fn answer(&self, request: &Request) -> Option<Answer> {
        let (path, handler) = self.0.iter().find_map(|(prefix, handler)| {
            let rest = request.path.strip_prefix(prefix)?;
            (rest.is_empty() || rest.starts_with('/')).then_some((rest, handler))
        })?;
        let request = AdminRequest {
            method: request.verb.clone(),
            path: path.to_owned(),
            query: request.query.clone(),
            authorization: request.authorization.clone(),
            body: request.body.clone(),
        };
        let AdminResponse { status, kind, body } = handler(request).await;
        Some(Answer { status, kind, body, fields: "" })
    }
}

impl fmt::Debug for CustomPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(prefix, _)| prefix)).finish()
    }
}
