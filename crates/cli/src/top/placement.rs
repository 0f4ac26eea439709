//! The line about placement: active processors, moved connections and partitions.

use phalanx::metrics::Snapshot;

/// The active processors and their load, and the connections and partitions that have moved. None if automatic placement
/// is off and nothing has moved.
pub(super) fn placement(snapshot: &Snapshot) -> Option<String> {
    let parts: Vec<_> = [active(snapshot), moved(snapshot)].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("  "))
}

fn moved(snapshot: &Snapshot) -> Option<String> {
    let named = snapshot.counters.iter().filter(|one| one.name == "phalanx_connections_moved");
    let connections: u64 = named.map(|counter| counter.count).sum();
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
    let comparisons = comparisons(snapshot);
    Some(format!("{active} of {all} processors active{advice}, load {load:.2}{comparisons}"))
}

/// The comparisons of two settings, by result. Empty if there were none.
fn comparisons(snapshot: &Snapshot) -> String {
    let count = |result: &str| {
        let mut counters = snapshot.counters.iter();
        let of = counters.find(|counter| {
            counter.name == "phalanx_placement_comparisons"
                && counter.label.as_ref().is_some_and(|[_, value]| value == result)
        });
        of.map_or(0, |counter| counter.count)
    };
    match (count("kept"), count("undone")) {
        (0, 0) => String::new(),
        (kept, undone) => format!("; settings compared: {kept} kept, {undone} undone"),
    }
}
