//! Taking connections in.

use std::cell::Cell;
use std::rc::Rc;

use phalanx::net::Listener;

use crate::connection::serve;
use crate::serve::Context;

/// Accepts until the program drains. Each connection becomes an operation of the control stage; more than
/// `most` on this processor are closed.
pub(crate) async fn accept(listener: Listener, context: Context, most: usize) {
    let open = Rc::new(Cell::new(0));
    loop {
        // Rather than let a queue grow that is long already.
        context.stages.control.room().await;
        let Some(stream) = listener.accept_next().await else { return };
        if open.get() >= most {
            continue;
        }
        let (counted, own) = (Counted::new(&open), context.clone());
        // Refused at a bound of operations: the connection closes, and the next may fit again.
        let _ = context.stages.control.dispatch(move |_| async move {
            serve(stream, own).await;
            drop(counted);
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
