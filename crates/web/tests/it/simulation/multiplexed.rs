//! The servers with HTTP/2 behind the simulated proxy.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{Method, Request, Response, StatusCode};
use phalanx::net::Stream;
use phalanx::sim::{self, Net};
use phalanx::{SharedStage, sleep};
use phalanx_compat::Compat;

use crate::simulation::proxied_request::random_length;
use crate::simulation::proxy::{Context, RequestCounts, count_request, proxy};

/// Serves the requests of a connection at the same time. At the time `restarts`, the server processes those that it has
/// got, announces with GOAWAY that it processes no others, and closes the connection.
pub(super) async fn serve(
    stream: Stream,
    stage: SharedStage<()>,
    restarts: Option<Duration>,
    (net, conditions, counts): Context,
) {
    let mut builder = Builder::new();
    builder.max_concurrent_streams(1 + net.draw(4) as u32);
    builder.initial_window_size(1 + net.draw(20_000) as u32);
    let Ok(mut connection) = builder.handshake(Compat::from(stream)).await else { return };
    let mut restarts = restarts.and_then(|at| at.checked_sub(net.now()));
    let mut restart = pin!(sleep(restarts.unwrap_or_default()));
    loop {
        let next = poll_fn(|context| {
            if restarts.is_some() && restart.as_mut().poll(context).is_ready() {
                restarts = None;
                connection.graceful_shutdown();
            }
            connection.poll_accept(context)
        });
        let Some(Ok((request, answer))) = next.await else { return };
        let context = (net.clone(), conditions, counts.clone());
        let _ = stage.dispatch(move |_| async move {
            let _ = respond(request, answer, context).await;
        });
    }
}

/// Processes a request. Returns `None` if its stream has ended before.
async fn respond(
    request: Request<RecvStream>,
    mut answer: SendResponse<Bytes>,
    (net, conditions, counts): Context,
) -> Option<()> {
    let name = request.uri().path()[1..].to_owned();
    let is_head = request.method() == Method::HEAD;
    let may_repeat = request.body().is_end_stream() && request.method() != Method::POST;
    let fault = if conditions.has_failing_servers { net.draw(8) } else { 8 };
    if fault == 4 || conditions.refuses_requests && is_refused(&net, &name, &counts) {
        answer.send_reset(Reason::REFUSED_STREAM);
        return None;
    }
    count_request(&counts, &name, may_repeat);
    let (is_early, mut body, mut length) = (net.draw(4) == 0, request.into_body(), 0);
    if !is_early {
        length = receive(&mut body).await?;
    }
    match fault {
        0 => return None,
        1 => {
            answer.send_reset(Reason::INTERNAL_ERROR);
            return None;
        }
        2 => sleep(Duration::from_secs(100)).await,
        _ if is_early => (),
        _ => sleep(Duration::from_micros(net.draw(20_000))).await,
    }
    let content = format!("{name} {length} {}.", "r".repeat(random_length(&net, 10_000)));
    let mut head = Response::builder().status(StatusCode::OK);
    if net.draw(2) == 0 {
        head = head.header("content-length", content.len());
    }
    let mut sending = answer.send_response(head.body(()).unwrap(), is_head).ok()?;
    if !is_head {
        let mut content = Bytes::from(content);
        let is_cut = fault == 3;
        if is_cut {
            content.truncate(net.draw(content.len() as u64) as usize);
        }
        send(&mut sending, content, !is_cut, &net).await?;
        if is_cut {
            sending.send_reset(Reason::INTERNAL_ERROR);
            return None;
        }
    }
    if is_early {
        receive(&mut body).await?;
    }
    Some(())
}

/// Whether the server refuses a request. It refuses each one at most once, and none that was processed.
fn is_refused(net: &Net, name: &str, counts: &RequestCounts) -> bool {
    let refused = format!("{name} refused");
    let mut counts = counts.borrow_mut();
    let is_new = !counts.contains_key(name) && !counts.contains_key(&refused) && name != "health";
    let is_refused = is_new && net.draw(3) == 0;
    if is_refused {
        counts.insert(refused, 1);
    }
    is_refused
}

/// Receives the body of a request, and returns its length.
async fn receive(body: &mut RecvStream) -> Option<usize> {
    let mut length = 0;
    while let Some(piece) = body.data().await {
        let piece = piece.ok()?;
        length += piece.len();
        body.flow_control().release_capacity(piece.len()).ok()?;
    }
    Some(length)
}

/// Sends content in pieces of any length.
async fn send(
    stream: &mut SendStream<Bytes>,
    mut content: Bytes,
    ends: bool,
    net: &Net,
) -> Option<()> {
    while !content.is_empty() {
        let most =
            if net.draw(3) == 0 { content.len() as u64 } else { content.len() as u64 / 2 + 1 };
        stream.reserve_capacity(1 + net.draw(most) as usize);
        let room = poll_fn(|context| stream.poll_capacity(context)).await?.ok()?;
        let part = content.split_to(room.min(content.len()));
        stream.send_data(part, ends && content.is_empty()).ok()?;
        if net.draw(3) == 0 {
            sleep(Duration::from_micros(net.draw(5000))).await;
        }
    }
    Some(())
}

#[test]
fn each_request_over_http2_gets_its_own_response() {
    sim::explore(60, |world| proxy(world, true));
}

#[test]
fn a_seed_with_http2_is_reproducible() {
    for seed in 0..5 {
        let run = || sim::run(seed, |world| proxy(world, true));
        assert_eq!(run(), run());
    }
}
