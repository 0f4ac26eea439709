//! Figures that changed since an earlier report by more than the noise.

use super::catalogue::{self, Goal};
use super::document::{Document, Entry};

/// Relative difference of figures between undisturbed runs.
const MAX_DIFFERENCE: f64 = 0.05;

/// A changed ratio.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Move {
    pub(super) experiment: &'static str,
    pub(super) says: &'static str,
    pub(super) before: f64,
    pub(super) now: f64,
    /// Whether it improved.
    pub(super) better: bool,
}

/// All ratios in both documents, measured by the same commands on the same kind of machine, that differ by more
/// than the noise.
pub(super) fn moves(before: &Document, now: &Document) -> Vec<Move> {
    let mut moves = Vec::new();
    for experiment in catalogue::all() {
        let both = before.entry(&experiment.name).zip(now.entry(&experiment.name));
        // Another command or machine is not comparable.
        let same = |(old, new): &(&Entry, &Entry)| {
            old.command == new.command && before.processor == now.processor
        };
        let Some((old, new)) = both.filter(same) else { continue };
        // Tolerance, increased by the slowdown of the machine.
        let noise = MAX_DIFFERENCE + (old.worst() - 1.0) + (new.worst() - 1.0);
        for ratio in &experiment.ratios {
            let Some((before, now)) = old.figure(&ratio.at).zip(new.figure(&ratio.at)) else {
                continue;
            };
            let change = now / before;
            if change > 1.0 + noise || change < 1.0 / (1.0 + noise) {
                let less = now < before;
                let better = match ratio.goal {
                    Goal::AtMost(_) => less,
                    Goal::AtLeast(_) => !less,
                };
                let (experiment, says) = (&*experiment.name, &*ratio.says);
                moves.push(Move { experiment, says, before, now, better });
            }
        }
    }
    moves
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn document(k8: f64, dispatch: f64, slowdown: f64) -> Document {
        let entry = |name: &str, report| Entry {
            name: name.into(),
            command: String::new(),
            seconds: 1.0,
            slowdown: [1.0, slowdown],
            noisy: false,
            report: Some(report),
            missing: None,
        };
        Document {
            version: 1,
            phalanx: String::new(),
            made_at: 0,
            quick: true,
            processor: None,
            cores: 2,
            kernel: String::new(),
            hardware_counters: false,
            peers: BTreeMap::new(),
            experiments: vec![
                entry("figure2", json!({ "k8_over_k1": k8 })),
                entry("op", json!({ "dispatch_over_boxed_fn": dispatch, "tokio_over_call": 2.0 })),
            ],
        }
    }

    #[test]
    fn changes_beyond_the_noise_are_found() {
        let before = document(0.5, 1.0, 1.0);
        let moved = |k8, dispatch, slowdown| {
            let moves = moves(&before, &document(k8, dispatch, slowdown));
            moves.iter().map(|moved| (moved.experiment, moved.better)).collect::<Vec<_>>()
        };
        assert_eq!(moved(0.51, 0.97, 1.0), []);
        assert_eq!(moved(0.4, 1.2, 1.0), [("figure2", true), ("op", false)]);
        assert_eq!(moved(0.4, 1.2, 1.5), [], "disturbed");
    }
}
