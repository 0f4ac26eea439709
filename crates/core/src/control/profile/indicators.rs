//! The indicators of traffic.

/// For each indicator, the amount below which a difference means little.
const FLOORS: Indicators = Indicators {
    operations_per_second: 50.0,
    bytes_in_per_operation: 32.0,
    bytes_out_per_operation: 64.0,
    bytes_per_receive: 64.0,
    typical_bytes_per_send: 64.0,
    opens_per_operation: 0.05,
    sockets: 8.0,
};

/// A description of the traffic in an interval, independent of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Indicators {
    /// Completed operations of all stages, per second.
    pub operations_per_second: f64,
    /// Bytes received from connections, per operation.
    pub bytes_in_per_operation: f64,
    /// Bytes sent on connections, per operation.
    pub bytes_out_per_operation: f64,
    /// Mean number of bytes per receive operation. It shows whether clients send many small pieces or few large ones.
    pub bytes_per_receive: f64,
    /// Geometric mean of the bytes of a send. Of two kinds of traffic with the same number of bytes per operation, it
    /// distinguishes one with equal sizes from one with many small and few large ones.
    pub typical_bytes_per_send: f64,
    /// Connections opened, per operation.
    pub opens_per_operation: f64,
    /// Open connections and other sockets.
    pub sockets: f64,
}

impl Indicators {
    /// All indicators, by name.
    pub fn named(&self) -> [(&'static str, f64); 7] {
        [
            ("operations_per_second", self.operations_per_second),
            ("bytes_in_per_operation", self.bytes_in_per_operation),
            ("bytes_out_per_operation", self.bytes_out_per_operation),
            ("bytes_per_receive", self.bytes_per_receive),
            ("typical_bytes_per_send", self.typical_bytes_per_send),
            ("opens_per_operation", self.opens_per_operation),
            ("sockets", self.sockets),
        ]
    }

    /// The distance to `other`: the logarithm of the ratio of the indicator that differs most. Amounts that are too
    /// small to matter count as equal. The distance is infinite if an indicator is not a number.
    ///
    /// ```
    /// use phalanx_core::Indicators;
    ///
    /// let calm = Indicators { operations_per_second: 10_000.0, ..Indicators::default() };
    /// let twice = Indicators { operations_per_second: 20_000.0, ..calm };
    /// assert!((calm.distance(&twice) - f64::ln(2.0)).abs() < 0.01);
    /// ```
    pub fn distance(&self, other: &Self) -> f64 {
        let pairs = self.named().into_iter().zip(other.named()).zip(FLOORS.named());
        pairs
            .map(|(((_, this), (_, other)), (_, floor))| ratio(this, other, floor))
            .fold(0.0, f64::max)
    }

    /// The distance in what clients request. The bytes per receive and per send and the number of connections depend on
    /// the setting as well, so comparisons of two settings ignore them.
    pub(super) fn demand_distance(&self, other: &Self) -> f64 {
        let neutral = |of: &Self| Self {
            bytes_per_receive: 0.0,
            typical_bytes_per_send: 0.0,
            sockets: 0.0,
            ..*of
        };
        neutral(self).distance(&neutral(other))
    }
}

fn ratio(this: f64, other: f64, floor: f64) -> f64 {
    let distance = ((this + floor) / (other + floor)).ln().abs();
    if distance.is_nan() { f64::INFINITY } else { distance }
}
