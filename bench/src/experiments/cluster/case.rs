//! The comparisons.

use std::time::Duration;

use phalanx_mqtt::QoS;

use super::servers::{Servers, State};
use super::takeover::{moves, takeover};
use super::{Options, Part};
use crate::error::Error;
use crate::experiments::broker::shape::{Setting, Shape};
use crate::experiments::broker::{self, Loaded, Slice};
use crate::system::Cores;

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
    /// A client with a kept session connects to another node.
    Move,
    /// Many publishers of messages for a kept session of their node.
    Kept,
    /// Latency of messages for a kept session of another node.
    KeptLatency,
}

/// One round.
pub(super) enum Round {
    /// The single broker, and the cluster: its nodes, then NATS.
    Pair(Slice, Slice),
    Times(Vec<Duration>),
}

impl Case {
    pub(super) const ALL: [Self; 10] = [
        Self::Local(QoS::AtMostOnce),
        Self::Local(QoS::AtLeastOnce),
        Self::Crossing(QoS::AtMostOnce),
        Self::Crossing(QoS::AtLeastOnce),
        Self::Latency(QoS::AtMostOnce),
        Self::Latency(QoS::AtLeastOnce),
        Self::Takeover,
        Self::Kept,
        Self::KeptLatency,
        Self::Move,
    ];

    pub(super) fn part(self) -> Part {
        if self.is_kept() { Part::Kept } else { Part::Memory }
    }

    /// The state of the brokers that it compares.
    pub(super) fn state(self) -> State {
        if self.is_kept() { State::Kept } else { State::InMemory }
    }

    fn is_kept(self) -> bool {
        matches!(self, Self::Kept | Self::KeptLatency | Self::Move)
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
            Self::Move => return Ok(Round::Times(moves((from, to), options.takeovers)?)),
            Self::Local(qos) | Self::Crossing(qos) => (Shape::Pair, qos),
            Self::Latency(qos) => (Shape::Light, qos),
            Self::Kept => (Shape::Acknowledged, QoS::AtLeastOnce),
            Self::KeptLatency => (Shape::Light, QoS::AtLeastOnce),
        };
        let setting = Setting { shape, qos, properties: 0 };
        let own = broker::Options {
            payload: options.payload,
            slice: options.slice(self.part()),
            ..broker::Options::of(options.runner.setup.clone(), options.quick)
        };
        let slice = |name, groups, at| {
            let mut load = Loaded::across(name, groups, at, self.is_kept(), setting, &own)?;
            let slice = load.slice(&format!("{name}, {self:?}"), cores, &own)?;
            load.leave().map(|()| slice)
        };
        let (one, [nodes, nats]) = (&servers.one, servers.families());
        let alone = slice("the single broker", vec![&one.family], (one.address, one.address))?;
        let subscribers = if matches!(self, Self::Local(_) | Self::Kept) { from } else { to };
        let groups = vec![&nodes[..], &nats];
        Ok(Round::Pair(alone, slice("the cluster", groups, (from, subscribers))?))
    }
}

impl Round {
    /// The times; none if it has another kind of result.
    pub(super) fn times(&self) -> &[Duration] {
        if let Self::Times(times) = self { times } else { &[] }
    }
}
