//! The comparisons, and their rows.

use std::time::Duration;

use phalanx_mqtt::QoS;

use super::report::Row;
use super::servers::{Servers, State};
use super::takeover::takeover;
use super::{Options, Part};
use crate::error::Error;
use crate::experiments::broker::shape::{Setting, Shape};
use crate::experiments::broker::{self, Loaded, Slice};
use crate::measure::stats::Rounds as _;
use crate::system::cores::Cores;

/// A comparison of the cluster with one broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    /// Messages wanted at the publisher's node only.
    Local(QoS),
    /// Messages wanted at another node only.
    Crossing(QoS),
    /// Latency of messages to another node.
    Latency(QoS),
    /// A client connects to another node.
    Takeover,
    /// Many publishers of messages for a kept session of their node.
    Kept,
}

/// One round.
pub(super) enum Round {
    /// The single broker, and the cluster: its nodes, then NATS.
    Pair(Slice, Slice),
    Times(Vec<Duration>),
}

/// A figure of a slice.
type Figure = fn(&Slice) -> f64;

impl Case {
    pub(super) const ALL: [Self; 8] = [
        Self::Local(QoS::AtMostOnce),
        Self::Local(QoS::AtLeastOnce),
        Self::Crossing(QoS::AtMostOnce),
        Self::Crossing(QoS::AtLeastOnce),
        Self::Latency(QoS::AtMostOnce),
        Self::Latency(QoS::AtLeastOnce),
        Self::Takeover,
        Self::Kept,
    ];

    pub(super) fn part(self) -> Part {
        if self == Self::Kept { Part::Kept } else { Part::Memory }
    }

    /// The state of the brokers that it compares.
    pub(super) fn state(self) -> State {
        if self == Self::Kept { State::Kept } else { State::InMemory }
    }

    /// Measures one round.
    pub(super) fn measure(
        self,
        servers: &Servers,
        cores: &Cores,
        options: &Options,
    ) -> Result<Round, Error> {
        let [from, to] = [0, 1].map(|n: usize| servers.nodes[n].address);
        let (shape, qos) = match self {
            Self::Takeover => return Ok(Round::Times(takeover((from, to), options.takeovers)?)),
            Self::Local(qos) | Self::Crossing(qos) => (Shape::Pair, qos),
            Self::Latency(qos) => (Shape::Light, qos),
            Self::Kept => (Shape::Acknowledged, QoS::AtLeastOnce),
        };
        let setting = Setting { shape, qos, properties: 0 };
        let own = broker::Options {
            payload: options.payload,
            slice: options.slice,
            ..broker::Options::of(options.runner.setup.clone(), options.quick)
        };
        let slice = |name, groups, at| {
            let mut load = Loaded::across(name, groups, at, self == Self::Kept, setting, &own)?;
            let slice = load.slice(cores, &own)?;
            load.leave().map(|()| slice)
        };
        let (one, [nodes, nats]) = (&servers.one, servers.families());
        let alone = slice("the single broker", vec![&one.family], (one.address, one.address))?;
        let subscribers = if matches!(self, Self::Local(_) | Self::Kept) { from } else { to };
        let groups = vec![&nodes[..], &nats];
        Ok(Round::Pair(alone, slice("the cluster", groups, (from, subscribers))?))
    }

    /// The rows of its rounds.
    pub(super) fn rows(self, rounds: &[Round]) -> Vec<Row> {
        let all: Figure = |slice| slice.cpu_us.iter().sum();
        let (brokers, nats): (Figure, Figure) = (|slice| slice.cpu_us[0], |slice| slice.cpu_us[1]);
        let ratio = |qos, case, cluster: Figure, at_most| {
            let result = |one, cluster| cluster / one;
            compare(rounds, (case, qos, "µs"), (all, cluster), result, at_most)
        };
        let added = |qos, case, figure: Figure, at_most| {
            let result = |one, cluster| cluster - one;
            compare(rounds, (case, qos, "ms"), (figure, figure), result, Some(at_most))
        };
        match self {
            Self::Local(qos) => {
                vec![ratio(qos, "wanted at one node: all processes", all, Some(1.03))]
            }
            Self::Crossing(qos) => {
                let target = |most| (qos == QoS::AtMostOnce).then_some(most);
                vec![
                    ratio(qos, "wanted at another node: brokers", brokers, target(1.7)),
                    ratio(qos, "wanted at another node: NATS", nats, target(0.3)),
                ]
            }
            Self::Latency(qos) => vec![
                added(qos, "to another node: p50", |slice| slice.p50_us / 1e3, 1.0),
                added(qos, "to another node: p99", |slice| slice.p99_us / 1e3, 5.0),
            ],
            Self::Takeover => {
                let mut times: Vec<_> = rounds.iter().flat_map(Round::times).collect();
                times.sort_unstable();
                let row = |case, share: f64, at_most| {
                    let at = (times.len() as f64 * share) as usize;
                    let ms = times[at].as_secs_f64() * 1e3;
                    Row::of_time(case, (ms, "ms"), at_most, rounds.len())
                };
                vec![row("takeover: p50", 0.5, None), row("takeover: p99", 0.99, Some(50.0))]
            }
            Self::Kept => {
                let (qos, rate): (_, Figure) = (QoS::AtLeastOnce, |slice| slice.per_s);
                let named = ("kept: acknowledged", qos, "1/s");
                let row = compare(rounds, named, (rate, rate), |_, cluster| cluster, None);
                vec![
                    Row { at_least: Some(30_000.0), ..row },
                    ratio(qos, "kept: brokers", brokers, None),
                    ratio(qos, "kept: NATS", nats, None),
                ]
            }
        }
    }
}

impl Round {
    fn times(&self) -> &[Duration] {
        if let Self::Times(times) = self { times } else { &[] }
    }
}

/// The row of a figure of one broker and one of the cluster, of which `result` is compared with the goal.
fn compare(
    rounds: &[Round],
    (case, qos, unit): (&'static str, QoS, &'static str),
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
    Row {
        case,
        qos: Some(qos as u8),
        unit,
        one: Some(middle(|one, _| one)),
        cluster: middle(|_, cluster| cluster),
        result: middle(result),
        at_most,
        at_least: None,
        slices: pairs.len(),
        noisy_slices: pairs.iter().filter(|(_, _, noisy)| *noisy).count(),
    }
}
