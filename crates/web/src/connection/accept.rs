//! Taking connections in.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use phalanx::net::{IoTimeout, Listener, Stream};
use phalanx::overload::Admission;
use phalanx::sync::Event;
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{SharedStage, select, timeout};
use phalanx_http::Status;
use phalanx_tls::{Failed, TlsStages};

use crate::connection::Connection;
use crate::connection::gauge_guard::GaugeGuard;
use crate::connection::peer::Peer;
use crate::connection::refusal::reject;
use crate::connection::transport::Transport;
use crate::http2;
use crate::site::CurrentSite;
use crate::stages::{AcceptStages, HTTP2, Stages};

/// What the listeners of one processor share.
#[derive(Clone)]
pub(crate) struct AcceptContext {
    stages: Stages,
    accept_stages: AcceptStages,
    current: CurrentSite,
    entry: Option<Admission>,
    /// Connections that are open, and those that are being turned away.
    open: Rc<Cell<usize>>,
    rejections: Rc<Cell<usize>>,
}

impl AcceptContext {
    pub(crate) fn new(stages: Stages, accept_stages: AcceptStages, current: CurrentSite) -> Self {
        let entry = current.load().max_queue_delay.map(Admission::with_target);
        Self {
            stages,
            accept_stages,
            current,
            entry,
            open: Rc::default(),
            rejections: Rc::default(),
        }
    }
}

/// What those who come in by a listener are spoken to in.
#[derive(Clone, Copy)]
pub(crate) enum ListenerKind {
    /// HTTP.
    Plain,
    /// TLS, and HTTP within it.
    Tls,
    /// HTTP, to say that the server is at this port, with TLS.
    RedirectHttps(u16),
}

/// Where connections come in on one processor.
pub(crate) struct ListenerControl {
    /// May be changed while it is open.
    pub(crate) kind: Rc<Cell<ListenerKind>>,
    /// Happens when it is to be shut; none if it never is.
    pub(crate) close: Option<Event<()>>,
}

/// So long a listener that is no longer wanted takes those in who had come before: what the kernel has
/// connected and nobody has accepted, it resets when the listener is closed.
const CLOSE_GRACE: Duration = Duration::from_millis(50);

impl ListenerKind {
    /// Says no. Within TLS that would cost a handshake, which is what there is no room for: closed
    /// without a word.
    fn reject(
        self,
        stream: Stream,
        refusals: SharedStage<()>,
        rejections: &Rc<Cell<usize>>,
        most: usize,
        status: Status,
    ) {
        if !matches!(self, Self::Tls) {
            reject(stream, refusals, rejections, most, status);
        }
    }
}

/// Accepts until the program drains, or the entrance is shut. Each connection becomes an operation of
/// the control stage.
pub(crate) async fn accept(listener: Listener, control: ListenerControl, context: AcceptContext) {
    let AcceptContext {
        stages,
        accept_stages: AcceptStages { refusals, tls },
        current,
        entry,
        open,
        rejections,
    } = context;
    let ListenerControl { kind, mut close } = control;
    let mut last = None;
    let mut site = current.load();
    loop {
        // Rather than let a queue grow that is long already.
        stages.control.room().await;
        let Some(stream) = next(&listener, &mut close, &mut last).await else { return };
        current.refresh(&mut site);
        let kind = kind.get();
        if open.get() >= site.max_connections {
            kind.reject(
                stream,
                refusals,
                &rejections,
                site.max_connections,
                Status::ServiceUnavailable,
            );
            continue;
        }
        let Ok(peer) = Peer::of(&stream, &site, stages) else {
            kind.reject(
                stream,
                refusals,
                &rejections,
                site.max_connections,
                Status::TooManyRequests,
            );
            continue;
        };
        let peer = Peer { gauge: Some(GaugeGuard::new(&open)), ..peer };
        let (current, entry) = (current.clone(), entry.clone());
        // Refused at a bound of operations: the connection closes, and the next may fit again.
        let _ = match kind {
            ListenerKind::Plain => {
                let connection = Connection::new(stream.into(), stages, current, entry, peer);
                stages.control.dispatch(move |_| connection.serve())
            }
            // Apart, as connections without TLS are not to hold the room for it.
            ListenerKind::Tls => stages
                .control
                .dispatch(move |_| handshake(stream, tls, stages, current, entry, peer)),
            ListenerKind::RedirectHttps(port) => {
                let connection = Connection::new(stream.into(), stages, current, entry, peer);
                stages.control.dispatch(move |_| connection.redirecting_to_https(port).serve())
            }
        };
    }
}

/// The next connection; none once the program drains, or the entrance is shut: `last` is until when
/// those come in all the same who had come before.
async fn next(
    listener: &Listener,
    close: &mut Option<Event<()>>,
    last: &mut Option<Duration>,
) -> Option<Stream> {
    let mut next = pin!(listener.accept_next());
    let Some(close) = close else { return next.await };
    match select(next.as_mut(), close).await {
        Either::Left(stream) => stream,
        Either::Right(_) => {
            let left = last.get_or_insert_with(|| now() + CLOSE_GRACE).saturating_sub(now());
            timeout(left, next).await.ok().flatten()
        }
    }
}

/// From a socket to a connection with TLS, in whichever protocol was agreed on.
async fn handshake(
    stream: Stream,
    tls: Option<TlsStages>,
    stages: Stages,
    current: CurrentSite,
    entry: Option<Admission>,
    peer: Peer,
) {
    let Some(tls) = tls else { return };
    let site = current.load();
    match tls.shake(stream, IoTimeout::after(site.timeouts.handshake).until_shutdown()).await {
        Ok(stream) if stream.speaks(HTTP2) => {
            let transport = Rc::new(Transport::Tls(stream));
            http2::connection::dispatch(transport, stages, current, entry, peer, Vec::new());
        }
        Ok(stream) => {
            let transport = Transport::Tls(stream);
            Connection::new(transport, stages, current, entry, peer).serve().await;
        }
        // A browser shows it to somebody who has typed `http`.
        Err(Some(Failed { stream, plain: true })) => {
            // Boxed: each connection with TLS would have room for it.
            Box::pin(
                Connection::new(stream.into(), stages, current, entry, peer).reject_plain_http(),
            )
            .await;
        }
        Err(_) => (),
    }
}
