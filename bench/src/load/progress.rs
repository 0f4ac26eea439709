//! A progress bar for long runs on a terminal.

use std::io::{IsTerminal, stderr};
use std::rc::Rc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use phalanx::sleep;

use super::drive::Drive;

/// Runs up to this length have no bar.
const MIN_SHOWN_RUN: Duration = Duration::from_secs(2);
const UPDATE_INTERVAL: Duration = Duration::from_millis(100);

/// A bar for a run of this length, if stderr is a terminal.
pub(crate) fn bar(length: Duration) -> Option<ProgressBar> {
    if length <= MIN_SHOWN_RUN || !stderr().is_terminal() {
        return None;
    }
    let style = ProgressStyle::with_template("{bar:40} {elapsed} {msg}").ok()?;
    Some(ProgressBar::new(length.as_millis() as u64).with_style(style))
}

/// Updates the bar until the end of the run.
pub(crate) async fn show(drive: Rc<Drive>, bar: ProgressBar) {
    let (mut shown, mut rate) = (drive.answered.get(), 0.0);
    while !drive.is_over() {
        sleep(UPDATE_INTERVAL).await;
        let answered = drive.answered.get();
        // Smooth the rate for readability.
        rate += ((answered - shown) as f64 / UPDATE_INTERVAL.as_secs_f64() - rate) * 0.2;
        shown = answered;
        bar.set_position(bar.elapsed().as_millis() as u64);
        bar.set_message(format!("{rate:.0} requests/s"));
    }
    bar.finish_and_clear();
}
