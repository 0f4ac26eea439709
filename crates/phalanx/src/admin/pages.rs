//! The pages and their paths.

use std::time::Duration;

use phalanx_core::sleep;

use super::hosts::{Hosts, host_to_allow};
use super::http::{Answer, Connection, Method, Request};
use super::{Source, graph, metrics, picture, timeline, waits};
use crate::metrics::Interval;
use crate::metrics::Snapshot;
use crate::scaling::{Automatic, Totals};
use crate::shutdown::draining;
use crate::task::{Either, select};

/// The list of pages.
const INDEX: &str = "\
/               live view of the program
/picture.svg    the live view as an image
/snapshot.json  all metrics since the start
/metrics        metrics for Prometheus (OpenMetrics)
/placement.json active processors, and the last decisions of automatic placement
/waits.json     operations that wait for each other in a cycle
/graph.dot      stages and arcs for Graphviz
/calls.dot      which stages invoke which, declared and observed, for Graphviz
/trace.json     all cohorts of some seconds, for ui.perfetto.dev; ?seconds=0.01 to 30
";

/// The response to a request for a host that is not accepted.
const REFUSED: &str = "\
The admin pages accept only requests for an IP address or localhost, because any web page can point its
own name at this address. To allow a name, use --admin-hosts NAME, or admin-hosts = [\"NAME\"] under [runtime]
in the configuration file, or Runtime::admin_hosts in a program of your own.
";

const HTML: &str = "text/html; charset=utf-8";
const GRAPHVIZ: &str = "text/vnd.graphviz; charset=utf-8";
/// Forbids loading from other origins, and frames.
const SECURITY: &str = "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; \
    script-src 'unsafe-inline'; connect-src 'self'; img-src data:; frame-ancestors 'none'\r\n";

/// Serves a client's requests in order.
pub(super) async fn serve(mut client: Connection, source: &Source) -> std::io::Result<()> {
    while let Some(request) = client.next().await? {
        if let Some(reason) = refusal(&request, &source.hosts) {
            client.answer(Answer::text("403 Forbidden", reason)).await?;
            continue;
        }
        if let Some(answer) = source.pages.answer(&request).await {
            client.answer(Answer { fields: SECURITY, ..answer }).await?;
            continue;
        }
        let page = match (request.method, request.path.as_str()) {
            (Method::Other, _) => {
                let not_allowed = Answer::text("405 Method Not Allowed", "GET or HEAD\n");
                Answer { fields: "Allow: GET, HEAD\r\n", ..not_allowed }
            }
            (_, "/snapshot.json") => {
                Answer::new("application/json", Snapshot::take(source).await.into_json().await)
            }
            (_, "/metrics") => {
                let snapshot = Snapshot::take(source).await;
                let text = metrics::render(&snapshot, source.metrics.recorded()).await;
                Answer::new(metrics::CONTENT_TYPE, text)
            }
            (_, "/placement.json") => {
                let (setting, all) = (source.active.setting(), source.active.all());
                let uptime_ns = source.epoch.elapsed().as_nanos() as u64;
                let (control, own) = (&source.control, Some(source.stage));
                let totals = Totals::of(control, own, &source.placement, uptime_ns);
                let json = Automatic::json(source.automatic.as_deref(), setting, all, totals);
                Answer::new("application/json", json)
            }
            (_, "/waits.json") => {
                Answer::new("application/json", waits::json(&source.control).await)
            }
            (_, "/calls.dot") => Answer::new(GRAPHVIZ, source.control.call_graph().dot()),
            (_, "/trace.json") => match timeline::start(&request, source) {
                Ok(trace) => {
                    timeline::serve(trace, &mut client, source).await?;
                    continue;
                }
                Err(answer) => answer,
            },
            (_, "/" | "/picture" | "/picture.svg" | "/graph.dot") => {
                picture_page(&request, source).await
            }
            _ => Answer::text("404 Not Found", INDEX),
        };
        client.answer(page).await?;
    }
    Ok(())
}

/// Why the request is refused: its host is not accepted, or it was sent by a script of another origin.
fn refusal(request: &Request, hosts: &Hosts) -> Option<String> {
    let host = request.host.as_deref();
    if host.is_some_and(|host| !hosts.accept(host)) {
        return Some(REFUSED.to_owned());
    }
    let origin = request.origin.as_deref()?;
    (!hosts.accept_origin(origin, host)).then(|| refused_origin(origin))
}

/// The response to a request by a script of another origin.
fn refused_origin(origin: &str) -> String {
    let reason = format!(
        "The admin pages refuse requests by scripts of other websites, and the Origin of this request is\n{origin:?}.\n"
    );
    match host_to_allow(origin) {
        Some(host) => format!(
            "{reason}To allow all pages of this host, use --admin-hosts {host}, or admin-hosts = [\"{host}\"] under\n\
             [runtime] in the configuration file, or Runtime::admin_hosts in a program of your own.\n"
        ),
        None => {
            format!("{reason}Only an Origin with a host name or an IPv4 address can be allowed.\n")
        }
    }
}

/// Renders a live page from two snapshots taken in quick succession.
async fn picture_page(request: &Request, source: &Source) -> Answer {
    let interval_ms = match request.parameter("ms").map(str::parse) {
        None => 500,
        Some(Ok(ms @ 50..=10_000)) => ms,
        Some(_) => return Answer::text("400 Bad Request", "ms must be 50 to 10000\n"),
    };
    let (before, after);
    if request.method == Method::Head {
        // A HEAD request needs no interval, so do not wait for one.
        before = Snapshot::take(source).await;
        after = before.clone();
    } else {
        before = Snapshot::take(source).await;
        pause(Duration::from_millis(interval_ms)).await;
        after = Snapshot::take(source).await;
    }
    let interval = Interval::between(&before, &after).expect("of one program");
    match request.path.as_str() {
        "/picture" => {
            let layout = match request.parameter("layout") {
                Some("narrow") => Some(picture::Screen::Narrow),
                Some(_) => Some(picture::Screen::Wide),
                None => None,
            };
            Answer::new(HTML, picture::fragment(&after, &interval, layout))
        }
        "/picture.svg" => Answer {
            fields: SECURITY,
            ..Answer::new("image/svg+xml", picture::svg(&after, &interval))
        },
        "/graph.dot" => Answer::new(GRAPHVIZ, graph::render(&interval)),
        _ => Answer { fields: SECURITY, ..Answer::new(HTML, picture::page(&after, &interval)) },
    }
}

/// Sleeps, but ends early when the program drains.
pub(super) async fn pause(time: Duration) {
    let (Either::Left(()) | Either::Right(())) = select(sleep(time), draining()).await;
}
