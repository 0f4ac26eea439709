//! Shapes of the load: publishers, subscribers and their rates.

use clap::ValueEnum;
use phalanx_mqtt::QoS;
use serde::Serialize;

use crate::arguments::name;

/// A shape of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Shape {
    /// One publisher, one subscriber
    Pair,
    /// One publisher, 100 subscribers
    FanOut,
    /// 100 publishers, one subscriber
    FanIn,
    /// 8 publishers, 8 subscribers that share a subscription
    Shared,
    /// 64 publishers of QoS 1 with many messages in flight, one subscriber
    Acknowledged,
    /// 8 such publishers, and many filters on message properties; only Phalanx
    Filters,
    /// One publisher at 1,000 messages a second: latency
    Light,
}

/// A variant of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) shape: Shape,
    pub(crate) qos: QoS,
    /// User properties per message.
    pub(crate) properties: usize,
}

/// Kind of messages counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    /// Messages received by subscribers.
    Delivered,
    /// QoS 1 messages acknowledged to publishers.
    Acknowledged,
}

/// User properties of a message in variants with some: 125 bytes.
const USER_PROPERTIES: usize = 8;

impl Shape {
    pub(crate) const ALL: [Self; 7] = [
        Self::Pair,
        Self::FanOut,
        Self::FanIn,
        Self::Shared,
        Self::Acknowledged,
        Self::Light,
        Self::Filters,
    ];

    /// The variants of the shape, in the order of measurement.
    pub(crate) fn settings(self) -> Vec<Setting> {
        let of = |qos, properties| Setting { shape: self, qos, properties };
        match self {
            Self::Pair | Self::FanOut | Self::FanIn => [QoS::AtMostOnce, QoS::AtLeastOnce]
                .into_iter()
                .flat_map(|qos| [of(qos, 0), of(qos, USER_PROPERTIES)])
                .collect(),
            Self::Shared => vec![of(QoS::AtMostOnce, 0), of(QoS::AtLeastOnce, 0)],
            Self::Acknowledged => vec![of(QoS::AtLeastOnce, 0)],
            Self::Light => vec![of(QoS::AtMostOnce, 0)],
            // An event has all 32 attributes.
            Self::Filters => vec![of(QoS::AtLeastOnce, 32)],
        }
    }

    /// Numbers of publishers and subscribers, and of messages in flight per publisher.
    const fn sizes(self) -> [usize; 3] {
        match self {
            Self::Pair => [1, 1, 512],
            Self::FanOut => [1, 100, 64],
            Self::FanIn => [100, 1, 20],
            Self::Shared => [8, 8, 64],
            Self::Acknowledged => [64, 1, 64],
            // So many subscribers that none exceeds 100,000 filters.
            Self::Filters => [8, 16, 128],
            Self::Light => [1, 1, 1000],
        }
    }

    pub(crate) fn publishers(self) -> usize {
        self.sizes()[0]
    }

    pub(crate) fn subscribers(self) -> usize {
        self.sizes()[1]
    }

    /// Messages in flight per publisher.
    pub(crate) fn window(self) -> usize {
        self.sizes()[2]
    }

    /// Messages per second of a paced shape; `None` in closed loop.
    pub(crate) fn rate(self) -> Option<f64> {
        (self == Self::Light).then_some(1000.0)
    }

    /// Number of subscribers that receive each message, if it is fixed.
    pub(crate) fn copies(self) -> Option<usize> {
        match self {
            Self::Filters => None,
            Self::Shared => Some(1),
            _ => Some(self.subscribers()),
        }
    }

    pub(crate) fn unit(self) -> Unit {
        match self {
            Self::Acknowledged | Self::Filters => Unit::Acknowledged,
            _ => Unit::Delivered,
        }
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&name(self))
    }
}
