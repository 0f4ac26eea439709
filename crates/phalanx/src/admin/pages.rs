//! Which page is at which path.

use std::time::Duration;

use phalanx_core::sleep;

use super::hosts::Hosts;
use super::http::{Answer, Connection, Method, Request};
use super::{Source, graph, metrics, picture, timeline};
use crate::metrics::Interval;
use crate::metrics::Snapshot;
use crate::select::{Either, select};
use crate::shutdown::draining;

/// All of them.
const INDEX: &str = "\
/               the program, live
/picture.svg    the same as a still picture
/snapshot.json  all figures since the start
/metrics        the same for Prometheus
/graph.dot      stages and arcs for graphviz
/trace.json     every cohort for some seconds, for ui.perfetto.dev; ?seconds=1 to 30
";

/// The answer to a request for a host that is not accepted.
const REFUSED: &str = "\
The admin pages answer only requests for an IP address or localhost, as any web page can have its own
name lead here. To allow a name: --admin-host NAME, or admin-hosts = [\"NAME\"] under [runtime] in the
configuration file; in a program of your own, Runtime::admin_hosts.
";

const HTML: &str = "text/html; charset=utf-8";
/// Nothing from elsewhere, and nobody else's frame.
const SECURITY: &str = "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; \
    script-src 'unsafe-inline'; connect-src 'self'; img-src data:; frame-ancestors 'none'\r\n";

/// Answers the requests of one client, one after the other.
pub(super) async fn serve(mut client: Connection, source: &Source) -> std::io::Result<()> {
    while let Some(request) = client.next().await? {
        let page = match (request.method, request.path.as_str()) {
            _ if !is_accepted(&request, &source.hosts) => Answer::text("403 Forbidden", REFUSED),
            (Method::Other, _) => {
                let refused = Answer::text("405 Method Not Allowed", "GET or HEAD\n");
                Answer { fields: "Allow: GET, HEAD\r\n", ..refused }
            }
            (_, "/snapshot.json") => {
                Answer::new("application/json", Snapshot::take(source).await.into_json().await)
            }
            (_, "/metrics") => {
                let text = metrics::render(&Snapshot::take(source).await).await;
                Answer::new(metrics::CONTENT_TYPE, text)
            }
            (_, "/trace.json") => match timeline::ask(&request, source) {
                Ok(asked) => {
                    timeline::serve(asked, &mut client, source).await?;
                    continue;
                }
                Err(refused) => refused,
            },
            (_, "/" | "/picture" | "/picture.svg" | "/graph.dot") => drawn(&request, source).await,
            _ => Answer::text("404 Not Found", INDEX),
        };
        client.answer(page).await?;
    }
    Ok(())
}

/// Whether the request is for an accepted host, and no script of another page has sent it.
fn is_accepted(request: &Request, hosts: &Hosts) -> bool {
    let Request { host, origin, .. } = request;
    host.as_ref().is_none_or(|host| hosts.accept(host))
        && origin.as_ref().is_none_or(|origin| hosts.accept_origin(origin))
}

/// A page that shows what happens now: two snapshots, a moment apart.
async fn drawn(request: &Request, source: &Source) -> Answer {
    let moment = match request.parameter("ms").map(str::parse) {
        None => 500,
        Some(Ok(ms @ 50..=10_000)) => ms,
        Some(_) => return Answer::text("400 Bad Request", "ms is 50 to 10000\n"),
    };
    let (before, after);
    if request.method == Method::Head {
        // The pages' lengths are not known beforehand; nobody waits for one that is not sent.
        before = Snapshot::take(source).await;
        after = before.clone();
    } else {
        before = Snapshot::take(source).await;
        pause(Duration::from_millis(moment)).await;
        after = Snapshot::take(source).await;
    }
    let interval = Interval::between(&before, &after).expect("of one program");
    match request.path.as_str() {
        "/picture" => {
            let layout = match request.parameter("layout") {
                Some("narrow") => Some(picture::Shown::Narrow),
                Some(_) => Some(picture::Shown::Wide),
                None => None,
            };
            Answer::new(HTML, picture::fragment(&after, &interval, layout))
        }
        "/picture.svg" => Answer {
            fields: SECURITY,
            ..Answer::new("image/svg+xml", picture::svg(&after, &interval))
        },
        "/graph.dot" => Answer::new("text/vnd.graphviz; charset=utf-8", graph::render(&interval)),
        _ => Answer { fields: SECURITY, ..Answer::new(HTML, picture::page(&after, &interval)) },
    }
}

/// Sleeps, but not beyond the program's end.
pub(super) async fn pause(time: Duration) {
    let (Either::Left(()) | Either::Right(())) = select(sleep(time), draining()).await;
}
