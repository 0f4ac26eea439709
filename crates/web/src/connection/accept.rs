//! Taking connections in.

use std::cell::Cell;
use std::rc::Rc;

use phalanx::net::{Listener, Stream};
use phalanx::{Admission, Patience};
use phalanx_http::Status;

use crate::connection::Connection;
use crate::connection::guest::Guest;
use crate::connection::refusal::turn_away;
use crate::connection::transport::Transport;
use crate::http2;
use crate::site::Live;
use crate::stages::Stages;
use crate::tls::handshake::TlsStages;
use crate::tls::session::Failed;

/// What the listeners of one processor share.
#[derive(Clone)]
pub(crate) struct Accepting {
    stages: Stages,
    tls: Option<TlsStages>,
    live: Live,
    entry: Option<Admission>,
    /// Connections that are open, and those that are being turned away.
    open: Rc<Cell<usize>>,
    told: Rc<Cell<usize>>,
}

impl Accepting {
    pub(crate) fn new(stages: Stages, tls: Option<TlsStages>, live: Live) -> Self {
        let entry = live.newest().target_wait.map(Admission::with_target);
        Self { stages, tls, live, entry, open: Rc::default(), told: Rc::default() }
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

impl Door {
    /// Says no. Within TLS that would cost a handshake, which is what there is no room for: closed
    /// without a word.
    fn turn_away(
        self,
        stream: Stream,
        stages: Stages,
        told: &Rc<Cell<usize>>,
        most: usize,
        status: Status,
    ) {
        if !matches!(self, Self::Tls) {
            turn_away(stream, stages, told, most, status);
        }
    }
}

/// Accepts until the program drains. Each connection becomes an operation of the control stage.
pub(crate) async fn accept(listener: Listener, door: Door, accepting: Accepting) {
    let Accepting { stages, tls, live, entry, open, told } = accepting;
    let mut site = live.newest();
    loop {
        // Rather than let a queue grow that is long already.
        stages.control.room().await;
        let Some(stream) = listener.accept_next().await else { return };
        live.refresh(&mut site);
        if open.get() >= site.max_connections {
            door.turn_away(stream, stages, &told, site.max_connections, Status::ServiceUnavailable);
            continue;
        }
        let Ok(guest) = Guest::of(&stream, &site, stages) else {
            door.turn_away(stream, stages, &told, site.max_connections, Status::TooManyRequests);
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

/// One of the open connections.
pub(super) struct Counted(Rc<Cell<usize>>);

impl Counted {
    fn new(open: &Rc<Cell<usize>>) -> Self {
        open.set(open.get() + 1);
        Self(open.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
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
    match tls.shake(stream, Patience::limit(site.timeouts.request).or_drain()).await {
        Ok(stream) if stream.is_http2() => {
            let transport = Rc::new(Transport::Tls(stream));
            http2::connection::serve(transport, stages, live, entry, guest, Vec::new()).await;
        }
        Ok(stream) => {
            let transport = Transport::Tls(stream);
            Connection::new(transport, stages, live, entry, guest).serve().await;
        }
        // A browser shows it to somebody who has typed `http`.
        Err(Some(Failed { stream, plain: true })) => {
            Connection::new(stream.into(), stages, live, entry, guest).misled().await;
        }
        Err(_) => (),
    }
}
