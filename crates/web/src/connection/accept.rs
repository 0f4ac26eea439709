//! Taking connections in.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use phalanx::Admission;
use phalanx::net::Listener;

use crate::connection::Connection;
use crate::connection::refusal::turn_away;
use crate::stages::{Site, Stages};

/// Accepts until the program drains. Each connection becomes an operation of the control stage.
pub(crate) async fn accept(listener: Listener, stages: Stages, site: Arc<Site>) {
    let (open, told) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let entry = site.target_wait.map(Admission::with_target);
    loop {
        // Rather than let a queue grow that is long already.
        stages.control.room().await;
        let Some(stream) = listener.accept_next().await else { return };
        if open.get() >= site.max_connections {
            turn_away(stream, stages, &told);
            continue;
        }
        let (counted, entry) = (Counted::new(&open), entry.clone());
        // Refused at a bound of operations: the connection closes, and the next may fit again.
        let _ = stages.control.dispatch(move |site| async move {
            let _counted = counted;
            Connection::new(stream.into(), stages, site, entry).serve().await;
        });
    }
}

/// One of the open connections.
struct Counted(Rc<Cell<usize>>);

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
