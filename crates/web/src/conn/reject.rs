//! Rejection of connections above a limit.

use std::cell::Cell;
use std::net::Shutdown;
use std::rc::Rc;
use std::time::Duration;

use phalanx::SharedStage;
use phalanx::net::{Bytes, IoTimeout, Payload, Stream};
use phalanx::time::now;
use phalanx_http::{Reply, ResponseBuffer, Status};

use crate::respond::refusal::refuse;
use crate::socket::gauge_guard::GaugeGuard;

/// Time for which a rejected connection is read, so that the client can read the response before its own
/// request resets the connection (RFC 9112 §9.6).
const LINGER: Duration = Duration::from_millis(500);
/// Rejects a connection above a limit: 503 for the server's limit, 429 for that of the address. While `most`
/// connections of this processor are being rejected, further ones are closed without a response.
pub(crate) fn reject(
    stream: Stream,
    refusals: SharedStage<()>,
    rejections: &Rc<Cell<usize>>,
    most: usize,
    status: Status,
) {
    if rejections.get() >= most {
        return;
    }
    let rejection = GaugeGuard::new(rejections);
    // If the operation limit is reached, the connection closes without a response.
    let _ = refusals.dispatch(move |_| async move {
        let _rejection = rejection;
        let mut out = ResponseBuffer::lines(Vec::with_capacity(256));
        refuse(&mut out, status, Reply::CLOSE);
        let payload = Payload { head: out.take(), body: Bytes::new() };
        let begun = now();
        let left = || IoTimeout::after(LINGER.saturating_sub(now() - begun)).until_shutdown();
        if stream.write(payload, left()).await.is_err() {
            return;
        }
        let _ = stream.shutdown(Shutdown::Write);
        let mut ignored = Vec::new();
        while now() - begun < LINGER && matches!(stream.read(&mut ignored, left()).await, Ok(1..)) {
            ignored.clear();
        }
    });
}
