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
use crate::connection::counted::Counted;
use crate::connection::guest::Guest;
use crate::connection::refusal::turn_away;
use crate::connection::transport::Transport;
use crate::http2;
use crate::site::Live;
use crate::stages::{DoorStages, HTTP2, Stages};

/// What the listeners of one processor share.
#[derive(Clone)]
pub(crate) struct Accepting {
    stages: Stages,
    at_door: DoorStages,
    live: Live,
    entry: Option<Admission>,
    /// Connections that are open, and those that are being turned away.
    open: Rc<Cell<usize>>,
    told: Rc<Cell<usize>>,
}

impl Accepting {
    pub(crate) fn new(stages: Stages, at_door: DoorStages, live: Live) -> Self {
        let entry = live.newest().max_queue_delay.map(Admission::with_target);
        Self { stages, at_door, live, entry, open: Rc::default(), told: Rc::default() }
    }
}

/// What those who come in by a listener are spoken to in.
#[derive(Clone, Copy)]
pub(crate) enum Door {
    /// HTTP.
    Plain,
    /// TLS, and HTTP within it.
    Tls,
    /// HTTP, to say that the server is at this port, with TLS.
    ToHttps(u16),
}

/// Where connections come in on one processor.
pub(crate) struct Entrance {
    /// May be changed while it is open.
    pub(crate) door: Rc<Cell<Door>>,
    /// Happens when it is to be shut; none if it never is.
    pub(crate) shut: Option<Event<()>>,
}

/// So long a listener that is no longer wanted takes those in who had come before: what the kernel has
/// connected and nobody has accepted, it resets when the listener is closed.
const LAST: Duration = Duration::from_millis(50);

impl Door {
    /// Says no. Within TLS that would cost a handshake, which is what there is no room for: closed
    /// without a word.
    fn turn_away(
        self,
        stream: Stream,
        refusals: SharedStage<()>,
        told: &Rc<Cell<usize>>,
        most: usize,
        status: Status,
    ) {
        if !matches!(self, Self::Tls) {
            turn_away(stream, refusals, told, most, status);
        }
    }
}

/// Accepts until the program drains, or the entrance is shut. Each connection becomes an operation of
/// the control stage.
pub(crate) async fn accept(listener: Listener, entrance: Entrance, accepting: Accepting) {
    let Accepting { stages, at_door: DoorStages { refusals, tls }, live, entry, open, told } =
        accepting;
    let Entrance { door, mut shut } = entrance;
    let mut last = None;
    let mut site = live.newest();
    loop {
        // Rather than let a queue grow that is long already.
        stages.control.room().await;
        let Some(stream) = next(&listener, &mut shut, &mut last).await else { return };
        live.refresh(&mut site);
        let door = door.get();
        if open.get() >= site.max_connections {
            door.turn_away(
                stream,
                refusals,
                &told,
                site.max_connections,
                Status::ServiceUnavailable,
            );
            continue;
        }
        let Ok(guest) = Guest::of(&stream, &site, stages) else {
            door.turn_away(stream, refusals, &told, site.max_connections, Status::TooManyRequests);
            continue;
        };
        let guest = Guest { counted: Some(Counted::new(&open)), ..guest };
        let (live, entry) = (live.clone(), entry.clone());
        // Refused at a bound of operations: the connection closes, and the next may fit again.
        let _ = match door {
            Door::Plain => {
                let connection = Connection::new(stream.into(), stages, live, entry, guest);
                stages.control.dispatch(move |_| connection.serve())
            }
            // Apart, as connections without TLS are not to hold the room for it.
            Door::Tls => {
                stages.control.dispatch(move |_| enter(stream, tls, stages, live, entry, guest))
            }
            Door::ToHttps(port) => {
                let connection = Connection::new(stream.into(), stages, live, entry, guest);
                stages.control.dispatch(move |_| connection.sending_to_https(port).serve())
            }
        };
    }
}

/// The next connection; none once the program drains, or the entrance is shut: `last` is until when
/// those come in all the same who had come before.
async fn next(
    listener: &Listener,
    shut: &mut Option<Event<()>>,
    last: &mut Option<Duration>,
) -> Option<Stream> {
    let mut next = pin!(listener.accept_next());
    let Some(shut) = shut else { return next.await };
    match select(next.as_mut(), shut).await {
        Either::Left(stream) => stream,
        Either::Right(_) => {
            let left = last.get_or_insert_with(|| now() + LAST).saturating_sub(now());
            timeout(left, next).await.ok().flatten()
        }
    }
}

/// From a socket to a connection with TLS, in whichever protocol was agreed on.
async fn enter(
    stream: Stream,
    tls: Option<TlsStages>,
    stages: Stages,
    live: Live,
    entry: Option<Admission>,
    guest: Guest,
) {
    let Some(tls) = tls else { return };
    let site = live.newest();
    match tls.shake(stream, IoTimeout::after(site.timeouts.handshake).until_shutdown()).await {
        Ok(stream) if stream.speaks(HTTP2) => {
            let transport = Rc::new(Transport::Tls(stream));
            http2::connection::dispatch(transport, stages, live, entry, guest, Vec::new());
        }
        Ok(stream) => {
            let transport = Transport::Tls(stream);
            Connection::new(transport, stages, live, entry, guest).serve().await;
        }
        // A browser shows it to somebody who has typed `http`.
        Err(Some(Failed { stream, plain: true })) => {
            // Boxed: each connection with TLS would have room for it.
            Box::pin(Connection::new(stream.into(), stages, live, entry, guest).misled()).await;
        }
        Err(_) => (),
    }
}
