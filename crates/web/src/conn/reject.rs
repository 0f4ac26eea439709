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
use crate::socket::linger::Linger;

/// Time limit for the response to a rejected connection, and for draining its input afterwards.
const LIMIT: Duration = Duration::from_millis(500);

/// Rejects a connection above a limit: 503 for the server's limit, 429 for the limit of the address. While `most`
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
        refuse(&mut out, status, Reply::CLOSE, None);
        let payload = Payload { head: out.take(), body: Bytes::new() };
        let begun = now();
        if stream.write(payload, IoTimeout::after(LIMIT).until_shutdown()).await.is_err() {
            return;
        }
        let _ = stream.shutdown(Shutdown::Write);
        let left = LIMIT.saturating_sub(now() - begun);
        let mut ignored = Vec::new();
        let read = async |limit| {
            ignored.clear();
            stream.read(&mut ignored, limit).await.unwrap_or(0)
        };
        Linger { pause: left, total: left, bytes: usize::MAX }.read(read).await;
    });
}
