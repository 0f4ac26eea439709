//! Shapes: who sends to whom, and how.

use clap::ValueEnum;
use phalanx_mqtt::QoS;
use serde::Serialize;

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// One publisher, one subscriber
    Pair,
    /// One publisher, 100 subscribers
    FanOut,
    /// 100 publishers, one subscriber
    FanIn,
    /// 64 publishers of QoS 1 who do not wait for each answer, one subscriber
    Acknowledged,
    /// 8 such publishers, and many filters on what messages carry; ours alone
    Filters,
    /// One publisher at 1,000 messages a second: latency
    Light,
}

/// A shape in one of its ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) shape: Shape,
    pub(super) qos: QoS,
    /// User properties of each message.
    pub(super) properties: usize,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Messages that subscribers have.
    Delivered,
    /// Messages of QoS 1 that publishers were answered.
    Acknowledged,
}

/// User properties, where there are any: 125 bytes of them.
const FEW_SUBSCRIBERS: usize = 8;
/// Clients whose filters are asked for: no client has more than 100,000.
const OWNERS: usize = 16;

impl Shape {
    pub(super) const ALL: [Self; 6] =
        [Self::Pair, Self::FanOut, Self::FanIn, Self::Acknowledged, Self::Light, Self::Filters];

    /// Its ways, in the order in which they are measured.
    pub(super) fn settings(self) -> Vec<Setting> {
        let of = |qos, properties| Setting { shape: self, qos, properties };
        match self {
            Self::Pair | Self::FanOut | Self::FanIn => [QoS::AtMostOnce, QoS::AtLeastOnce]
                .into_iter()
                .flat_map(|qos| [of(qos, 0), of(qos, FEW_SUBSCRIBERS)])
                .collect(),
            Self::Acknowledged => vec![of(QoS::AtLeastOnce, 0)],
            Self::Light => vec![of(QoS::AtMostOnce, 0)],
            // An event carries all 32 attributes.
            Self::Filters => vec![of(QoS::AtLeastOnce, 32)],
        }
    }

    pub(super) fn publishers(self) -> usize {
        match self {
            Self::Pair | Self::FanOut | Self::Light => 1,
            Self::FanIn => 100,
            Self::Acknowledged => 64,
            Self::Filters => 8,
        }
    }

    pub(super) fn subscribers(self) -> usize {
        match self {
            Self::FanOut => 100,
            Self::Filters => OWNERS,
            _ => 1,
        }
    }

    /// Messages that a publisher has under way.
    pub(super) fn window(self) -> usize {
        match self {
            Self::Pair => 512,
            Self::FanOut | Self::Acknowledged => 64,
            Self::FanIn => 20,
            Self::Filters => 128,
            Self::Light => 1000,
        }
    }

    /// Messages a second, if that is not as many as arrive.
    pub(super) fn rate(self) -> Option<f64> {
        (self == Self::Light).then_some(1000.0)
    }

    /// To how many a message goes, if that is known.
    pub(super) fn copies(self) -> Option<usize> {
        (self != Self::Filters).then(|| self.subscribers())
    }

    pub(super) fn unit(self) -> Unit {
        match self {
            Self::Acknowledged | Self::Filters => Unit::Acknowledged,
            _ => Unit::Delivered,
        }
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.to_possible_value().expect("none is left out").get_name())
    }
}
