//! Taking connections in.

use std::rc::Rc;

use phalanx::net::Listener;

use crate::connection::serve;
use crate::serve::Context;

/// Accepts until the program drains. Each connection becomes an operation of the control stage; more than
/// `most` on this processor are closed.
pub(crate) async fn accept(listener: Listener, context: Context, most: usize) {
    // Held by each open connection, and by this loop.
    let open = Rc::new(());
    loop {
        // Rather than let a queue grow that is long already.
        context.stages.control.room().await;
        let Some(stream) = listener.accept_next().await else { return };
        if Rc::strong_count(&open) > most {
            continue;
        }
        let (counted, own) = (open.clone(), context.clone());
        // Refused at a bound of operations: the connection closes, and the next may fit again.
        let _ = context.stages.control.dispatch(move |_| async move {
            serve(stream, own).await;
            drop(counted);
        });
    }
}
