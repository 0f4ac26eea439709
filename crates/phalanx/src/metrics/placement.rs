//! The part of a snapshot about automatic placement.

use std::collections::BTreeMap;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use super::human::{count, time};
use super::snapshot::Name;

/// The last observation and decision of automatic placement.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct PlacementSnapshot {
    /// `"on"` or `"advise"`.
    pub mode: Name,
    /// The result of the last check of the loads, or of the last sample of the traffic.
    pub reason: Name,
    /// The mix of the profile that the traffic resembles.
    pub mix: Option<String>,
    /// The indicators of the last sample, by name. Empty without a profile.
    pub indicators: BTreeMap<Name, f64>,
    /// The last change that was made or advised, or the last completed comparison.
    pub decision: Option<DecisionSnapshot>,
}

/// A decision of automatic placement.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct DecisionSnapshot {
    /// Nanoseconds since the start.
    pub uptime_ns: u64,
    /// The number of active processors, with a profile also the times of spinning and of batching.
    pub to: String,
    /// The reason for the decision.
    pub reason: Name,
    /// The cost in the profile.
    pub predicted: Option<CostSnapshot>,
    /// The measured cost of the same setting.
    pub measured: Option<CostSnapshot>,
    /// The measured cost of the previous setting, if it is a different one.
    pub measured_before: Option<CostSnapshot>,
}

/// The cost of a setting.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct CostSnapshot {
    /// Microseconds of CPU time per operation.
    pub cpu_us_per_operation: f64,
    /// Microseconds, the 99th percentile.
    pub p99_us: f64,
}

impl PlacementSnapshot {
    /// Formats this for display, in lines of at most 80 columns if names are short: the mix and the indicators, the
    /// last decision, and its costs. `uptime_ns` is the uptime of the snapshot.
    pub fn lines(&self, uptime_ns: u64) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.indicators.is_empty() {
            lines.push(self.traffic());
        }
        if let Some(decision) = &self.decision {
            let ago = time(uptime_ns.saturating_sub(decision.uptime_ns) as f64);
            let verb = if self.mode == "advise" { "advised" } else { "to" };
            lines.push(format!("{verb} {}: {}, {ago} ago", decision.to, decision.reason));
            lines.extend(decision.costs());
        }
        lines
    }

    fn traffic(&self) -> String {
        let figure = |name| count(self.indicators.get(name).copied().unwrap_or_default());
        format!(
            "mix {}: {} op/s, {} B in, {} B out, {} B/receive, {} opens, {} sockets",
            self.mix.as_deref().unwrap_or("unknown"),
            figure("operations_per_second"),
            figure("bytes_in_per_operation"),
            figure("bytes_out_per_operation"),
            figure("bytes_per_receive"),
            figure("opens_per_operation"),
            figure("sockets"),
        )
    }
}

impl DecisionSnapshot {
    fn costs(&self) -> Option<String> {
        let named = [
            ("predicted", self.predicted),
            ("measured", self.measured),
            ("before", self.measured_before),
        ];
        let costs = named.into_iter().filter_map(|(name, cost)| {
            let CostSnapshot { cpu_us_per_operation, p99_us } = cost?;
            Some(format!("{name} {} p99 {}", time(cpu_us_per_operation * 1e3), time(p99_us * 1e3)))
        });
        let costs: Vec<_> = costs.collect();
        (!costs.is_empty()).then(|| costs.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_indicators_and_reason_are_lines() {
        let cost = |us| Some(CostSnapshot { cpu_us_per_operation: us, p99_us: 53.0 });
        let mut placement = PlacementSnapshot {
            mode: "on".into(),
            reason: "steady".into(),
            mix: Some("small".to_owned()),
            indicators: [
                ("operations_per_second", 60_000.0),
                ("bytes_in_per_operation", 80.0),
                ("bytes_out_per_operation", 612.0),
                ("bytes_per_receive", 80.0),
                ("opens_per_operation", 0.01),
                ("sockets", 64.0),
            ]
            .map(|(name, figure)| (name.into(), figure))
            .into(),
            decision: Some(DecisionSnapshot {
                uptime_ns: 3_000_000_000,
                to: "3 active, spin 0, batch-delay 200 µs".to_owned(),
                reason: "recognised".into(),
                predicted: cost(9.36),
                measured: None,
                measured_before: cost(10.9),
            }),
        };
        let lines = placement.lines(15_000_000_000);
        assert_eq!(
            lines,
            [
                "mix small: 60.0k op/s, 80 B in, 612 B out, 80 B/receive, 0.01 opens, 64 sockets",
                "to 3 active, spin 0, batch-delay 200 µs: recognised, 12.0 s ago",
                "predicted 9.36 µs p99 53.0 µs, before 10.9 µs p99 53.0 µs",
            ]
        );
        placement.indicators.clear();
        placement.decision = Some(DecisionSnapshot {
            to: "2 active".to_owned(),
            reason: "idle".into(),
            ..DecisionSnapshot::default()
        });
        assert_eq!(placement.lines(2_000_000_000), ["to 2 active: idle, 2.00 s ago"]);
        placement.mode = "advise".into();
        assert_eq!(placement.lines(2_000_000_000), ["advised 2 active: idle, 2.00 s ago"]);
        assert!(PlacementSnapshot::default().lines(9).is_empty());
    }
}
