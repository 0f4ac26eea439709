//! The line about automatic placement.

use phalanx::metrics::Snapshot;

/// The active processors and their load. None if automatic placement is off.
pub(super) fn placement(snapshot: &Snapshot) -> Option<String> {
    let gauge = |name: &str| {
        let mut gauges = snapshot.gauges.iter();
        gauges.find(|gauge| gauge.name == name).map(|gauge| gauge.value)
    };
    let active = gauge("phalanx_active_processors")?;
    let needed = gauge("phalanx_needed_processors")?;
    let load = gauge("phalanx_placement_demand_thousandths")? as f64 / 1000.0;
    let advice = if needed == active { String::new() } else { format!(", {needed} advised") };
    let all = snapshot.processors.len();
    Some(format!("{active} of {all} processors active{advice}, load {load:.2}"))
}
