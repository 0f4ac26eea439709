//! The totals of a program, and the sample between two of them.

use phalanx_core::{Control, Histogram, Indicators, Measured, StageView};
use rustix::time::{ClockId, clock_gettime};

use crate::io::{Placement, Traffic, size_of_log};

/// The minimum number of operations in an interval from which a cost is computed.
const MIN_OPERATIONS: u64 = 50;

/// A program's operations and waits since its start.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Totals {
    /// Nanoseconds since the start.
    pub uptime_ns: u64,
    /// CPU time of the process, in nanoseconds.
    pub cpu_ns: u64,
    /// Completed operations of all stages except the one of the admin pages.
    pub operations: u64,
    /// Bytes received from connections.
    pub bytes_in: u64,
    /// Bytes sent on connections.
    pub bytes_out: u64,
    /// Receives that returned bytes.
    pub receives: u64,
    /// Sends on connections.
    pub sends: u64,
    /// The sum of the binary logarithms of their sizes in bytes, in units of 1/256.
    pub send_logs: u64,
    /// Opened connections and other sockets.
    pub opens: u64,
    /// Sockets that are open now.
    pub sockets: u64,
    /// The queued operations of these stages by their wait, in the buckets of the snapshot.
    pub waits: Vec<u64>,
}

impl Totals {
    /// Reads the totals. `admin` is the number of the stage of the admin pages, which is not counted because it serves
    /// `phalanx profile`.
    pub(crate) fn of(
        control: &Control,
        admin: Option<usize>,
        placement: &Placement,
        uptime_ns: u64,
    ) -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let mut traffic = Traffic::default();
        let mut totals = Self {
            uptime_ns,
            cpu_ns: cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64,
            waits: vec![0; Histogram::default().0.len()],
            ..Self::default()
        };
        for processor in 0..placement.processors() {
            traffic += placement.traffic(processor);
            let stages = control.processor(processor).stages.into_iter().enumerate();
            let counted = stages.filter(|(number, _)| Some(*number) != admin);
            counted.for_each(|(_, stage)| totals.add(&stage));
        }
        let Traffic { bytes_in, bytes_out, receives, sends, send_logs, opens, sockets } = traffic;
        Self { bytes_in, bytes_out, receives, sends, send_logs, opens, sockets, ..totals }
    }

    /// Adds a stage of one processor.
    fn add(&mut self, stage: &StageView) {
        self.operations += stage.completed.count;
        for (sum, count) in self.waits.iter_mut().zip(stage.waits.0) {
            *sum += count;
        }
    }

    /// The traffic since `before`, and the cost of an operation. The p99 is computed from the waits of queued
    /// operations. The cost is `None` if there were too few operations.
    pub fn since(&self, before: &Self) -> (Indicators, Option<Measured>) {
        let operations = self.operations.saturating_sub(before.operations);
        let of = |now: u64, before: u64| now.saturating_sub(before) as f64;
        let each = |now, before| of(now, before) / operations.max(1) as f64;
        let seconds = of(self.uptime_ns, before.uptime_ns).max(1.0) / 1e9;
        let receives = of(self.receives, before.receives).max(1.0);
        let sends = of(self.sends, before.sends);
        let typical = size_of_log(of(self.send_logs, before.send_logs) / sends.max(1.0));
        let indicators = Indicators {
            operations_per_second: operations as f64 / seconds,
            bytes_in_per_operation: each(self.bytes_in, before.bytes_in),
            bytes_out_per_operation: each(self.bytes_out, before.bytes_out),
            bytes_per_receive: of(self.bytes_in, before.bytes_in) / receives,
            typical_bytes_per_send: if sends > 0.0 { typical } else { 0.0 },
            opens_per_operation: each(self.opens, before.opens),
            sockets: self.sockets as f64,
        };
        if operations < MIN_OPERATIONS {
            return (indicators, None);
        }
        let mut waits = Histogram::default();
        for (bucket, (now, before)) in waits.0.iter_mut().zip(self.waits.iter().zip(&before.waits))
        {
            *bucket = now.saturating_sub(*before);
        }
        let cost_ns = each(self.cpu_ns, before.cpu_ns);
        (indicators, Some(Measured { cost_ns, p99_ns: waits.percentile_ns(99.0) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direct_operations_are_counted_and_not_in_the_waits() {
        let mut stage = StageView::default();
        // 900 of 1,000 operations ran in their callers, which did not wait.
        (stage.completed.count, stage.direct) = (1_000, 900);
        (stage.waits.0[2], stage.waits.0[9]) = (60, 40);
        let mut totals = Totals { waits: vec![0; stage.waits.0.len()], ..Totals::default() };
        totals.add(&stage);
        assert_eq!((totals.operations, totals.waits[2], totals.waits[9]), (1_000, 60, 40));
    }

    #[test]
    fn a_sample_describes_the_interval() {
        let before = Totals { waits: vec![7; 40], ..Totals::default() };
        let after = Totals {
            uptime_ns: 2_000_000_000,
            cpu_ns: 1_000_000,
            operations: 100,
            bytes_in: 5_000,
            bytes_out: 80_000,
            receives: 50,
            // Of 1 KiB each.
            sends: 20,
            send_logs: 20 * 10 * 256,
            opens: 10,
            sockets: 3,
            waits: vec![8; 40],
        };
        let (indicators, measured) = after.since(&before);
        let expected = Indicators {
            operations_per_second: 50.0,
            bytes_in_per_operation: 50.0,
            bytes_out_per_operation: 800.0,
            bytes_per_receive: 100.0,
            typical_bytes_per_send: 1_024.0,
            opens_per_operation: 0.1,
            sockets: 3.0,
        };
        assert_eq!(indicators, expected);
        assert_eq!(measured.unwrap().cost_ns, 10_000.0);
        assert_eq!(before.since(&before).1, None);
    }
}
