//! The time of day, read a few times a second.

use std::cell::RefCell;
use std::time::Duration;

use phalanx::time::{now, time_of_day};
use phalanx_http::DateLine;

/// The time of day is read again after this long.
const REFRESH_INTERVAL: Duration = Duration::from_millis(100);

struct Clock {
    line: DateLine,
    read_at: Duration,
}

thread_local! {
    static CLOCK: RefCell<Option<Clock>> = const { RefCell::new(None) };
}

/// Runs `f` with the line for the `Date` field.
pub(crate) fn with_date<R>(f: impl FnOnce(&DateLine) -> R) -> R {
    CLOCK.with_borrow_mut(|clock| {
        let now = now();
        let clock = clock.get_or_insert_with(|| Clock {
            line: DateLine::new(time_of_day().as_secs()),
            read_at: now,
        });
        // Another runtime on this thread may have had another beginning of time.
        if now < clock.read_at || now - clock.read_at >= REFRESH_INTERVAL {
            clock.line.update(time_of_day().as_secs());
            clock.read_at = now;
        }
        f(&clock.line)
    })
}

/// Seconds since 1970, of this tenth of a second.
pub(crate) fn unix_seconds() -> u64 {
    with_date(DateLine::second)
}
