//! The time of day, cached for a tenth of a second.

use std::cell::RefCell;
use std::time::Duration;

use phalanx::time::{now, time_of_day};
use phalanx_http::{DateLine, Head, Reply, ResponseBuffer, Status};

/// Age at which the cached time is read again.
const REFRESH_INTERVAL: Duration = Duration::from_millis(100);

struct Clock {
    line: DateLine,
    read_at: Duration,
}

thread_local! {
    static CLOCK: RefCell<Option<Clock>> = const { RefCell::new(None) };
}

/// Starts a response with the current date.
#[inline]
pub(crate) fn head(out: &mut ResponseBuffer, status: Status, reply: Reply) -> Head<'_> {
    with_date(|date| out.head(status, date, reply))
}

/// Like [`head`], for the response of another server.
pub(crate) fn relayed_head(out: &mut ResponseBuffer, code: u16, reply: Reply) -> Head<'_> {
    with_date(|date| out.relayed_head(code, date, reply))
}

/// Calls `f` with the current `Date` field.
fn with_date<R>(f: impl FnOnce(&DateLine) -> R) -> R {
    CLOCK.with_borrow_mut(|clock| {
        let now = now();
        let clock = clock.get_or_insert_with(|| Clock {
            line: DateLine::new(time_of_day().as_secs()),
            read_at: now,
        });
        // Another runtime on this thread may have used a different clock origin.
        if now < clock.read_at || now - clock.read_at >= REFRESH_INTERVAL {
            clock.line.update(time_of_day().as_secs());
            clock.read_at = now;
        }
        f(&clock.line)
    })
}

/// Seconds since 1970, at most [`REFRESH_INTERVAL`] old.
pub(crate) fn unix_seconds() -> u64 {
    with_date(DateLine::second)
}
