//! The first steps of a request that is to be forwarded: the same limits and passwords as for files.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use phalanx::overload::Permit;
use phalanx_http::{Body, Reply, Request, Status};

use crate::proxy::job::{Job, Origin, max_forwards};
use crate::respond::admit::{RequestContext, admit};
use crate::respond::refusal::head;
use crate::respond::writer::ResponseWriter;
use crate::respond::{fail_for_server, is_permitted};
use crate::stages::Stages;
use crate::upstream::Group;

/// The next step of a connection.
pub(crate) enum Prepared {
    /// It passes the request to a server.
    Job(Box<Job>),
    /// The response is already written.
    Answered,
    /// The last response is already written. The body of the request was not read.
    Last,
}

/// Prepares passing `request` to `group`, or responds to it.
///
/// The future is boxed, so that connections without such requests do not reserve its memory.
///
/// # Errors
/// If the response cannot be sent.
pub(crate) fn prepare<'a>(
    (out, permit, path): (&'a mut ResponseWriter, &'a mut Option<Permit>, &'a mut Vec<u8>),
    stages: Stages,
    context: RequestContext<'a>,
    group: &'a Arc<Group>,
    (request, reply): (&'a Request<'a>, Reply),
    origin: Origin,
) -> Pin<Box<impl Future<Output = io::Result<Prepared>> + use<'a>>> {
    Box::pin(async move {
        // The body of a request that is answered here is not read.
        let here = if request.body == Body::None { reply } else { reply.closing() };
        if admit(&mut out.buffer, &context, permit, request, here)
            && is_permitted(out, stages, context.site, path, request, here).await?
        {
            let host = context.site.host(request.host);
            match Job::new(group, request, request.body, origin) {
                // `Max-Forwards` does not permit to forward the request, so this server answers it.
                Ok(_) if max_forwards(request) == Some(0) => {
                    let is_tls = out.is_tls();
                    let fields = host.and_then(|host| context.site.transport_fields(host, is_tls));
                    head(&mut out.buffer, Status::NoContent, here, fields).finish();
                }
                Ok(mut job) => {
                    job.host_index = host;
                    job.is_private = host.is_some_and(|host| {
                        context.site[host].rules.protects_request(request.path)
                    });
                    return Ok(Prepared::Job(job));
                }
                Err(status) => {
                    fail_for_server(out, (context.site, host), (status, here)).await?;
                }
            }
        }
        if here.keep_alive {
            out.send_if_full().await?;
            return Ok(Prepared::Answered);
        }
        Ok(Prepared::Last)
    })
}
