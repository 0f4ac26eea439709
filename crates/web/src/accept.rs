//! Taking connections in.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::net::Listener;
use phalanx::{Admission, is_draining, sleep};

use crate::connection::Connection;
use crate::refusal::turn_away;
use crate::stages::{Site, Stages};

/// When the process is out of descriptors or memory, it is so for a while.
const OUT_OF_RESOURCES: Duration = Duration::from_millis(50);

/// Accepts until the program drains. Each connection becomes an operation of the control stage.
pub(crate) async fn accept(listener: Listener, stages: Stages, site: Arc<Site>) {
    let (open, told) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let entry = site.target_wait.map(Admission::with_target);
    loop {
        // Rather than let a queue grow that is long already.
        stages.control.room().await;
        let stream = match listener.accept().await {
            Ok(stream) => stream,
            Err(_) if is_draining() => return,
            Err(error) => {
                if !is_clients_fault(&error) {
                    sleep(OUT_OF_RESOURCES).await;
                }
                continue;
            }
        };
        if open.get() >= site.max_connections {
            turn_away(stream, stages, &told);
            continue;
        }
        let (counted, entry) = (Counted::new(&open), entry.clone());
        // Refused at a bound of operations: the connection closes, and the next may fit again.
        let _ = stages.control.dispatch(move |site| async move {
            let _counted = counted;
            Connection::new(stream, stages, site, entry).serve().await;
        });
    }
}

/// The client went away before it was accepted.
fn is_clients_fault(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
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
