//! The report, as text and as JSON.

use super::Shown;
use crate::measure::{Misses, Rounds as _, median, record};
use crate::system::cachegrind::Counts;

record! {
    /// The report of `phalanx-bench figure7`.
    pub(crate) struct Report, pub(super) fn new(rows: Vec<Row>, has_users: bool, cycles_per_us: f64) where {
        let most = rows.iter().map(|row| row.clients).max();
        let find = |name| rows.iter().find(|row: &&Row| row.server == name && Some(row.clients) == most);
        let both = find("phalanx").zip(find("twin"));
        let over_twin = |of: fn(&Row) -> Option<f64>| both.and_then(|(phalanx, twin)| Some(of(phalanx)? / of(twin)?));
        let cycles = |(phalanx, twin): (&Row, &Row)| median(&phalanx.shown.over(&twin.shown, |slice| slice.all));
    } {
        /// One per server and number of clients.
        rows: Vec<Row> | "a request: instructions and misses by cachegrind, outside of the kernel; cycles of the time-stamp counter", 0;
        /// `users` who think, or `connections` in closed loop.
        load: &'static str => "clients", 0 = if has_users { "users" } else { "connections" };
        /// Instructions with the most clients: Phalanx over the twin.
        instructions_over_twin: Option<f64> => "instructions over the twin, with the most clients", 2
            = over_twin(|row| Some(row.each?.instructions));
        /// The same ratio of simulated second-level misses.
        l2_misses_over_twin: Option<f64> => "second-level misses over the twin", 2
            = over_twin(|row| Some(row.each?.l2()));
        /// The same ratio of cycles, including the kernel: the median of the pairs of slices.
        cycles_over_twin: Option<f64> => "cycles over the twin", 2 = both.map(cycles);
        /// Cycles of the time-stamp counter per microsecond.
        cycles_per_us: f64 => "cycles per µs", 0;
    }
}

record! {
    /// Cost of a request on one server with a number of clients.
    pub(crate) struct Row, pub(super) fn new(
        server: &'static str,
        clients: usize,
        shown: Vec<Shown>,
        counts: Option<Counts>,
    ) {
        /// `phalanx` or `twin`.
        server: &'static str => "server", 0;
        /// Number of users, or of connections with one request in flight.
        clients: usize => "clients", 0;
        each: Option<Misses>, flatten = counts.map(Misses::from);
        /// Processor time in cycles, including the kernel: the median of the slices.
        cycles: f64 => "cycles", 0 = shown.median(|slice| slice.all);
        /// Processor time in cycles outside the kernel, as accounted by the kernel: the median of the slices.
        own_cycles: f64 => "own", 0 = shown.median(|slice| slice.own);
        own_cycles_per_instruction: Option<f64> => "own/instruction", 2
            = counts.map(|counts| own_cycles / counts.instructions);
        /// The slices.
        #[serde(skip)]
        shown: Vec<Shown>;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_compared_in_pairs() {
        let row = |server, cycles: [f64; 3]| {
            let shown = cycles.map(|all| Shown { all, own: all / 2.0 }).to_vec();
            Row::new(server, 64, shown, None)
        };
        let rows = vec![row("phalanx", [2.0, 8.0, 3.0]), row("twin", [4.0, 16.0, 12.0])];
        let report = Report::new(rows, true, 1.0);
        // The ratio of the medians is 0.25.
        assert_eq!((report.cycles_over_twin, report.rows[1].own_cycles), (Some(0.5), 6.0));
        assert_eq!(report.instructions_over_twin, None);
    }
}
