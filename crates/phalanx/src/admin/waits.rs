//! `/waits.json`: the operations that wait for each other in a cycle, found on demand.

use std::sync::mpsc::{TryRecvError, channel};
use std::time::Duration;

use phalanx_core::{Control, WaitCycle, Waits, now};
use serde_json::json;

use super::pages::pause;

/// The maximum wait for the processors' reports. A processor that runs a long operation does not report.
const ANSWER: Duration = Duration::from_secs(1);
/// The time between two checks for reports.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The content of `/waits.json`. A cycle is listed if it is found twice.
pub(super) async fn json(control: &Control) -> Vec<u8> {
    let (mut cycles, replied) = inspect(control).await;
    if !cycles.is_empty() {
        let second = inspect(control).await.0;
        cycles.retain(|cycle| second.contains(cycle));
    }
    let cycles: Vec<_> = cycles.iter().map(cycle).collect();
    let report =
        json!({ "processors": control.processors(), "answered": replied, "cycles": cycles });
    serde_json::to_vec(&report).expect("names and numbers")
}

fn cycle(cycle: &WaitCycle) -> serde_json::Value {
    let operations = cycle.operations.iter().map(|operation| {
        json!({
            "processor": operation.processor,
            "stage": operation.stage,
            "operation": operation.operation,
            "site": operation.site.to_string(),
            "reason": operation.reason.to_string(),
        })
    });
    json!({ "operations": operations.collect::<Vec<_>>() })
}

/// Finds the current cycles. Also returns the number of processors that have reported.
async fn inspect(control: &Control) -> (Vec<WaitCycle>, usize) {
    let (sender, answers) = channel();
    control.inspect_waits(move |waits| _ = sender.send(waits));
    let (until, mut all) = (now() + ANSWER, Vec::new());
    loop {
        match answers.try_recv() {
            Ok(waits) => all.push(waits),
            Err(TryRecvError::Empty) if now() < until => pause(POLL_INTERVAL).await,
            // All senders have been dropped when all processors have reported or ended.
            Err(_) => return (Waits::cycles(&all), all.len()),
        }
    }
}
