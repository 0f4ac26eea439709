//! The first steps of a request that is to be forwarded: the same limits and passwords as for files.

use std::io;
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
/// # Errors
/// If the response cannot be sent.
pub(crate) async fn prepare(
    (out, permit, path): (&mut ResponseWriter, &mut Option<Permit>, &mut Vec<u8>),
    stages: Stages,
    context: RequestContext<'_>,
    group: &Arc<Group>,
    (request, reply): (&Request<'_>, Reply),
    origin: Origin,
) -> io::Result<Prepared> {
    // The body of a request that is answered here is not read.
    let here = if request.body == Body::None { reply } else { reply.closing() };
    let host = context.site.host(request.host);
    // Rare steps are boxed, so that connections do not reserve their memory.
    if admit(&mut out.buffer, &context, permit, request, here)
        && (!context.site.has_protected
            || Box::pin(is_permitted(out, stages, context.site, path, request, here)).await?)
    {
        match Job::new(group, request, request.body, origin) {
            // `Max-Forwards` does not permit to forward the request, so this server answers it.
            Ok(_) if max_forwards(request) == Some(0) => {
                let is_tls = out.is_tls();
                let fields = host.and_then(|host| context.site.transport_fields(host, is_tls));
                head(&mut out.buffer, Status::NoContent, here, fields).finish();
            }
            Ok(mut job) => {
                job.host_index = host;
                job.is_private = host
                    .is_some_and(|host| context.site[host].rules.protects_request(request.path));
                return Ok(Prepared::Job(job));
            }
            Err(status) => {
                Box::pin(fail_for_server(out, (context.site, host), (status, here))).await?;
            }
        }
    }
    if here.keep_alive {
        out.send_if_full().await?;
        return Ok(Prepared::Answered);
    }
    Ok(Prepared::Last)
}
