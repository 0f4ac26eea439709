//! Taking connections in.

use std::cell::Cell;
use std::rc::Rc;

use phalanx::Admission;
use phalanx::net::Listener;
use phalanx_http::Status;

use crate::connection::Connection;
use crate::connection::guest::Guest;
use crate::connection::refusal::turn_away;
use crate::site::Live;
use crate::stages::Stages;

/// What the listeners of one processor share.
#[derive(Clone)]
pub(crate) struct Accepting {
    stages: Stages,
    live: Live,
    entry: Option<Admission>,
    /// Connections that are open, and those that are being turned away.
    open: Rc<Cell<usize>>,
    told: Rc<Cell<usize>>,
}

impl Accepting {
    pub(crate) fn new(stages: Stages, live: Live) -> Self {
        let entry = live.newest().target_wait.map(Admission::with_target);
        Self { stages, live, entry, open: Rc::default(), told: Rc::default() }
    }
}

/// Accepts until the program drains. Each connection becomes an operation of the control stage.
pub(crate) async fn accept(listener: Listener, accepting: Accepting) {
    let Accepting { stages, live, entry, open, told } = accepting;
    let mut site = live.newest();
    loop {
        // Rather than let a queue grow that is long already.
        stages.control.room().await;
        let Some(stream) = listener.accept_next().await else { return };
        live.refresh(&mut site);
        if open.get() >= site.max_connections {
            turn_away(stream, stages, &told, site.max_connections, Status::ServiceUnavailable);
            continue;
        }
        let Ok(guest) = Guest::of(&stream, &site, stages) else {
            turn_away(stream, stages, &told, site.max_connections, Status::TooManyRequests);
            continue;
        };
        let guest = Guest { counted: Some(Counted::new(&open)), ..guest };
        let connection = Connection::new(stream.into(), stages, live.clone(), entry.clone(), guest);
        // Refused at a bound of operations: the connection closes, and the next may fit again.
        let _ = stages.control.dispatch(move |_| connection.serve());
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
