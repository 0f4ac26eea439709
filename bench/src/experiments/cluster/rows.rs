//! The rows of the comparisons and of the kills.

use std::time::Duration;

use phalanx_mqtt::QoS;

use super::case::{Case, Round};
use super::killed::{Killed, STEPS, Times};
use super::report::{Failed, Row};
use crate::experiments::broker::Slice;
use crate::measure::{Rounds as _, median};

type Figure = fn(&Slice) -> f64;

const ALL: Figure = |slice| slice.cpu_us.iter().sum();
const BROKERS: Figure = |slice| slice.cpu_us[0];
const NATS: Figure = |slice| slice.cpu_us[1];
const P50: Figure = |slice| slice.p50_us / 1e3;
const P99: Figure = |slice| slice.p99_us / 1e3;
const RATE: Figure = |slice| slice.per_s;

impl Case {
    /// The rows of its rounds; none without a round.
    pub(super) fn rows(self, rounds: &[Round]) -> Vec<Row> {
        if rounds.is_empty() {
            return Vec::new();
        }
        let ratio = |qos, case, cluster: Figure, at_most| {
            let result = |one, cluster| cluster / one;
            compare(rounds, (case, qos, "µs"), (ALL, cluster), result, at_most)
        };
        let added = |qos, case, figure: Figure, at_most| {
            let result = |one, cluster| cluster - one;
            compare(rounds, (case, qos, "ms"), (figure, figure), result, Some(at_most))
        };
        let of_cluster = |case, unit, figure: Figure| {
            let named = (case, QoS::AtLeastOnce, unit);
            compare(rounds, named, (figure, figure), |_, cluster| cluster, None)
        };
        match self {
            Self::Local(qos) => {
                vec![ratio(qos, "wanted at one node: all processes", ALL, Some(1.03))]
            }
            Self::Crossing(qos) => {
                let target = |most| (qos == QoS::AtMostOnce).then_some(most);
                vec![
                    ratio(qos, "wanted at another node: brokers", BROKERS, target(1.7)),
                    ratio(qos, "wanted at another node: NATS", NATS, target(0.3)),
                ]
            }
            Self::Latency(qos) => vec![
                added(qos, "to another node: p50", P50, 1.0),
                added(qos, "to another node: p99", P99, 5.0),
            ],
            Self::Takeover => times("takeover", rounds),
            Self::Move => times("kept, a session moves", rounds),
            Self::Kept => {
                let rate = of_cluster("kept: acknowledged a second", "1/s", RATE);
                vec![
                    Row { at_least: Some(30_000.0), ..rate },
                    of_cluster("kept: until arrival, p50", "ms", P50),
                    of_cluster("kept: until arrival, p99", "ms", P99),
                    ratio(QoS::AtLeastOnce, "kept: brokers", BROKERS, None),
                    ratio(QoS::AtLeastOnce, "kept: NATS", NATS, None),
                ]
            }
            Self::KeptLatency => vec![
                added(QoS::AtLeastOnce, "kept, to another node: p50", P50, 1.0),
                added(QoS::AtLeastOnce, "kept, to another node: p99", P99, 5.0),
            ],
        }
    }
}

impl Killed {
    /// The rows of its times; none without a kill. If a session was not usable, the client's time counts.
    pub(super) fn rows(self, times: &[&Times]) -> Vec<Row> {
        let row = |what: &str, figure: &dyn Fn(&Times) -> Option<Duration>| {
            let seen = times.iter().filter_map(|times| Some((figure(times)?, times.is_noisy)));
            let (seen, noisy): (Vec<_>, Vec<_>) = seen.unzip();
            let seconds: Vec<_> = seen.iter().map(Duration::as_secs_f64).collect();
            let counts = (seen.len(), noisy.into_iter().filter(|is_noisy| *is_noisy).count());
            let case = format!("{self}: {what}");
            (!seen.is_empty()).then(|| Row::alone(case, "s", median(&seconds), counts))
        };
        let steps = STEPS.iter().enumerate();
        let steps = steps.filter_map(|(n, (step, _))| row(step, &|times| times.steps[n]));
        let usable = row("usable", &|times| Some(times.usable));
        let usable = usable.map(|row| Row { at_most: Some(self.at_most()), ..row });
        steps.chain(usable).collect()
    }

    /// The kills after which the session was not usable.
    pub(super) fn failed(self, times: &[&Times]) -> impl Iterator<Item = Failed> {
        let failed = move |reason: String| Failed { case: self.to_string(), why: reason };
        times.iter().filter_map(|times| times.reason.clone()).map(failed)
    }
}

/// The rows of the times of clients that connect to another node.
fn times(case: &str, rounds: &[Round]) -> Vec<Row> {
    let mut times: Vec<_> = rounds.iter().flat_map(Round::times).collect();
    times.sort_unstable();
    let row = |name: &str, share: f64| {
        let at = (times.len() as f64 * share) as usize;
        let ms = times[at].as_secs_f64() * 1e3;
        Row::alone(format!("{case}: {name}"), "ms", ms, (rounds.len(), 0))
    };
    vec![row("p50", 0.5), Row { at_most: Some(50.0), ..row("p99", 0.99) }]
}

/// The row of a figure of one broker and one of the cluster, of which `result` is compared with the goal.
fn compare(
    rounds: &[Round],
    (case, qos, unit): (&str, QoS, &'static str),
    (of_one, of_cluster): (Figure, Figure),
    result: fn(f64, f64) -> f64,
    at_most: Option<f64>,
) -> Row {
    let pair = |round: &Round| match round {
        Round::Pair(one, cluster) => {
            Some((of_one(one), of_cluster(cluster), one.noisy || cluster.noisy))
        }
        Round::Times(_) => None,
    };
    let pairs: Vec<_> = rounds.iter().filter_map(pair).collect();
    let middle = |of: fn(f64, f64) -> f64| pairs.median(|(one, cluster, _)| of(*one, *cluster));
    let slices = (pairs.len(), pairs.iter().filter(|(_, _, noisy)| *noisy).count());
    Row {
        qos: Some(qos as u8),
        one: Some(middle(|one, _| one)),
        cluster: middle(|_, cluster| cluster),
        at_most,
        ..Row::alone(case.to_owned(), unit, middle(result), slices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_counts_although_a_step_is_not_seen() {
        let [one, ..] = Killed::all(false);
        let seconds = Duration::from_secs;
        let times = |step, usable, reason: Option<&str>| Times {
            steps: [Some(seconds(5)), step],
            usable: seconds(usable),
            reason: reason.map(str::to_owned),
            is_noisy: usable > 60,
        };
        let (usable, not) =
            (times(Some(seconds(6)), 7, None), times(None, 81, Some("not usable within 80 s")));
        let rows = one.rows(&[&usable, &not]);
        let shown = rows.iter().map(|row| (&*row.case, row.result, row.slices, row.noisy_slices));
        let name = |step| format!("killed with 1 MB queued: {step}");
        let [detected, adopted, all] = ["detected", "adopted", "usable"].map(name);
        let wanted = [(&*detected, 5.0, 2, 1), (&*adopted, 6.0, 1, 0), (&*all, 44.0, 2, 1)];
        assert_eq!(shown.collect::<Vec<_>>(), wanted);
        assert_eq!(one.failed(&[&usable, &not]).count(), 1);
        assert!(one.rows(&[]).is_empty());
    }
}
