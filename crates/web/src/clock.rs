//! The time of day, read a few times a second.

use std::cell::RefCell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use phalanx::now;
use phalanx_http::DateLine;

/// The time of day is read again after this long.
const FRESH: Duration = Duration::from_millis(100);

struct Clock {
    line: DateLine,
    read_at: Duration,
}

thread_local! {
    static CLOCK: RefCell<Option<Clock>> = const { RefCell::new(None) };
}

/// Seconds since 1970, by the machine's clock.
fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Runs `f` with the line for the `Date` field.
pub(crate) fn with_date<R>(f: impl FnOnce(&DateLine) -> R) -> R {
    CLOCK.with_borrow_mut(|clock| {
        let now = now();
        let clock = clock
            .get_or_insert_with(|| Clock { line: DateLine::new(unix_seconds()), read_at: now });
        // Another runtime on this thread may have had another beginning of time.
        if now < clock.read_at || now - clock.read_at >= FRESH {
            clock.line.update(unix_seconds());
            clock.read_at = now;
        }
        f(&clock.line)
    })
}

/// Seconds since 1970, of this tenth of a second.
pub(crate) fn today() -> u64 {
    with_date(DateLine::second)
}
