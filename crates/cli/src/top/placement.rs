//! The lines about placement: active processors, moved connections and partitions, compared settings.

use phalanx::metrics::Snapshot;

/// The active processors and their load, the connections and partitions that have moved, the comparisons of settings, the
/// mix and the indicators of a profile, and the last decision. Empty if automatic placement is off and nothing has moved.
pub(super) fn placement(snapshot: &Snapshot) -> Vec<String> {
    let parts = [active(snapshot), moved(snapshot), comparisons(snapshot)];
    let last = snapshot.placement.iter().flat_map(|counter| counter.lines(snapshot.uptime_ns));
    parts.into_iter().flatten().chain(last).collect()
}

fn moved(snapshot: &Snapshot) -> Option<String> {
    let moved =
        snapshot.counters.iter().filter(|counter| counter.name == "phalanx_connections_moved");
    let connections: u64 = moved.map(|counter| counter.count).sum();
    let partitions: u64 = snapshot.processors.iter().map(|processor| processor.take_overs).sum();
    (connections + partitions > 0)
        .then(|| format!("moved: {connections} connections, {partitions} partitions"))
}

fn active(snapshot: &Snapshot) -> Option<String> {
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

/// The comparisons of two settings, by result.
fn comparisons(snapshot: &Snapshot) -> Option<String> {
    let count = |result: &str| {
        let mut counters = snapshot.counters.iter();
        let counter = counters.find(|counter| {
            counter.name == "phalanx_placement_comparisons"
                && counter.label.as_ref().is_some_and(|[_, value]| value == result)
        });
        counter.map_or(0, |counter| counter.count)
    };
    match (count("kept"), count("undone")) {
        (0, 0) => None,
        (kept, undone) => Some(format!("settings compared: {kept} kept, {undone} undone")),
    }
}
