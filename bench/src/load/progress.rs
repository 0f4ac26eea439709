//! A bar on the terminal while a long run goes on.

use std::io::{IsTerminal, stderr};
use std::rc::Rc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use phalanx::sleep;

use super::drive::Drive;

/// Runs up to this long show nothing.
const MIN_SHOWN_RUN: Duration = Duration::from_secs(2);
const UPDATE_INTERVAL: Duration = Duration::from_millis(100);

/// A bar for a run of this length, if somebody is there to see it.
pub(crate) fn bar(length: Duration) -> Option<ProgressBar> {
    if length <= MIN_SHOWN_RUN || !stderr().is_terminal() {
        return None;
    }
    let style = ProgressStyle::with_template("{bar:40} {elapsed} {msg}").ok()?;
    Some(ProgressBar::new(length.as_millis() as u64).with_style(style))
}

/// Moves the bar until the run is over.
pub(crate) async fn show(drive: Rc<Drive>, bar: ProgressBar) {
    let (mut shown, mut rate) = (drive.answered.get(), 0.0);
    while !drive.is_over() {
        sleep(UPDATE_INTERVAL).await;
        let answered = drive.answered.get();
        // Smoothed, so that it can be read.
        rate += ((answered - shown) as f64 / UPDATE_INTERVAL.as_secs_f64() - rate) * 0.2;
        shown = answered;
        bar.set_position(bar.elapsed().as_millis() as u64);
        bar.set_message(format!("{rate:.0} requests/s"));
    }
    bar.finish_and_clear();
}
