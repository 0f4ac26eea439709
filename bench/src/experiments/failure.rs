//! `phalanx-bench failure`: the TUX paper's failure zone (§5.1, Figure 7(a)).
//!
//! Near its capacity, a server has an increasing number of requests in flight. If more requests in flight make
//! each request more expensive, a short delay suffices for a collapse: throughput stays below the arrival rate
//! and does not recover.

use std::fmt::Display;
use std::time::Instant;

use crate::arguments::{kib, number};
use crate::error::Error;
use crate::experiments::concurrency::{ARMS, Allocator, Order, Server, second_level, server};
use crate::measure::{Partial, Rounds as _, Stretch, maximum, measure_arms, median, record};
use crate::system::{cores, install_signal_handlers, interrupted};
use clap::Args;

/// Requests in flight at which a server has failed: all its connections are in use.
const LIMIT: usize = 10_000;
/// Relative precision of the failure rate.
const STEP: f64 = 0.02;
/// Share of a trial by which the server must have recovered from a stall.
const END: f64 = 0.9;
/// Maximum latency in the rest of the trial, in nanoseconds.
const LATE: u64 = 100_000_000;

/// Measure the rate at which a server enters its failure zone, with a budget and without.
///
/// The requests and servers of `phalanx-bench concurrency`, in open loop: requests arrive at a uniform rate,
/// regardless of earlier ones. A server has failed when 10,000 requests are in flight, or when more than one in
/// a hundred of the requests that end in the last tenth of a trial took over 100 ms, or none ended. Bisection
/// finds the highest sustained rate to 2 percent: once undisturbed, and once with the server stalled at the
/// beginning of a trial (--stall), as on a busy machine. All servers take turns in each round.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// KiB of code in each of the eight stages: 1, 2, 4, 8, 16 or 32
    #[arg(long, value_name = "N", default_value = "16", value_parser = kib())]
    pub(crate) kib: u64,

    /// Length of the stall, in milliseconds
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 20,
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) stall: u64,

    /// Length of a trial, in milliseconds
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 500,
          value_parser = clap::value_parser!(u64).range(10..=10_000))]
    pub(crate) trial: u64,

    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number(1..=100))]
    pub(crate) rounds: usize,

    /// One round of short trials: only checks that it runs
    #[arg(long, conflicts_with_all = ["rounds", "trial"])]
    pub(crate) quick: bool,
}

record! {
    /// The report.
    pub(crate) struct Report, fn new(rows: Vec<Row>, partial: Option<Partial>, quick: bool) where {
        let of = |order, allocator, stalled| {
            let is = |row: &&Row| (row.order, row.allocator, row.stall_ms > 0) == (order, allocator, stalled);
            &rows.iter().find(is).expect("all arms are measured").rates
        };
        let ratio = |stalled| {
            let best = of(Order::Bounded, Allocator::Pools, stalled);
            median(&best.over(of(Order::List, Allocator::General, stalled), |rate| *rate))
        };
    } {
        /// The failure rate of the server with a budget and pools over that of an event server in list order with
        /// the general allocator.
        bounded_over_unbounded: f64 => "budget and pools over list order and the general allocator", 2 = ratio(false);
        /// The same ratio with an initial stall.
        bounded_over_unbounded_stalled: f64 => "the same after a stall", 2 = ratio(true);
        /// Each server, with and without a stall.
        rows: Vec<Row> | "sustained requests per second", 0;
        rounds: usize => "rounds", 0 = rows.first().map_or(0, |row| row.rates.len());
        partial: Option<Partial>;
        /// Whether this was a quick run, whose figures are meaningless.
        quick: bool;
    }
}

record! {
    /// One server.
    pub(crate) struct Row, fn new(order: Order, allocator: Allocator, stall_ms: u64, rates: Vec<f64>) {
        /// The order in which requests advance.
        order: Order => "order", 0;
        /// The allocator of the requests' objects.
        allocator: Allocator => "memory", 0;
        /// Length of the initial stall in milliseconds.
        stall_ms: u64 => "stall ms", 0;
        /// Highest sustained rate in requests per second, the best of the rounds.
        rate: f64 => "requests/s", 0 = maximum(&rates);
        /// The rate of each round.
        #[serde(skip)]
        rates: Vec<f64>;
    }
}

/// Measures in this process, with the thread bound to one core.
pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let (rounds, trial) = match options.quick {
        true => (1, 20),
        false => (options.rounds, options.trial),
    };
    install_signal_handlers()?;
    let here = cores::first()?;
    let cache = second_level();
    let with_stall = |stall_ms| ARMS.map(|arm| (arm, stall_ms));
    let arms: Vec<_> = [0, options.stall].into_iter().flat_map(with_stall).collect();
    let (measured, partial) = cores::bound(&here, || {
        measure_arms(
            &[()],
            |()| "failure".to_owned(),
            (arms.len(), rounds),
            |(), at, _| {
                interrupted()?;
                let ((order, allocator), stall_ms) = arms[at];
                eprintln!("{order:?}, {allocator:?}, stalled for {stall_ms} ms");
                let fresh = || server((order, allocator), options.kib, LIMIT, cache);
                let trial = Trial { nanos: trial * 1_000_000, stall: stall_ms * 1_000_000 };
                let name = format!("{order:?}, {allocator:?}, {stall_ms} ms of stall");
                Ok::<_, Error>(trial.limit(name, &fresh))
            },
        )
    })??;
    let row = |(((order, allocator), stall_ms), rates)| Row::new(order, allocator, stall_ms, rates);
    let rows: Vec<Row> = arms.into_iter().zip(measured.into_iter().flatten()).map(row).collect();
    Ok(Report::new(rows, partial, options.quick))
}

/// Parameters of a trial.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// Length of the trial in nanoseconds.
    nanos: u64,
    /// Length of the initial stall in nanoseconds.
    stall: u64,
}

impl Trial {
    /// The highest rate, in requests per second, that a fresh server sustains.
    fn limit(self, name: impl Display, fresh: &dyn Fn() -> Box<dyn Server>) -> f64 {
        let mut low = 1_000.0;
        let mut high = 2.0 * low;
        let mut best = None;
        let mut bears = |rate| {
            let mut server = fresh();
            let stretch = Stretch::begin();
            let start = Instant::now();
            let (bears, served) =
                self.bears(&mut *server, rate, &|| start.elapsed().as_nanos() as u64);
            let ended = stretch.end();
            if bears {
                best = Some((ended, served));
            }
            bears
        };
        while bears(high) && high < 1e8 {
            (low, high) = (high, 2.0 * high);
        }
        while high / low > 1.0 + STEP {
            let middle = f64::sqrt(low * high);
            match bears(middle) {
                true => low = middle,
                false => high = middle,
            }
        }
        if let Some((ended, served)) = best {
            ended.of(name, served);
        }
        low
    }

    /// Whether the server sustains `rate` to the end of the trial, and the number of completed requests. The clock starts at
    /// zero.
    fn bears(self, server: &mut dyn Server, rate: f64, now: &dyn Fn() -> u64) -> (bool, usize) {
        let late = (self.nanos as f64 * END) as u64;
        let (mut came, mut served, mut ended_late, mut too_late) = (0u64, 0, 0u64, 0u64);
        loop {
            let at = now();
            if at >= self.nanos {
                // Tolerate one late request in a hundred.
                return (ended_late > 0 && too_late * 100 <= ended_late, served);
            }
            let due = (at as f64 * rate / 1e9) as u64;
            while came < due {
                // The intended arrival time, not the time of this call.
                server.offer((came as f64 * 1e9 / rate) as u64);
                came += 1;
            }
            if server.in_flight() >= LIMIT {
                return (false, served);
            }
            if at < self.stall || server.in_flight() == 0 {
                std::hint::spin_loop();
                continue;
            }
            server.turn(&mut |came| {
                served += 1;
                if at >= late {
                    ended_late += 1;
                    too_late += u64::from(at - came > LATE);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::VecDeque;

    use super::*;

    /// A server of constant speed, in requests per millisecond of a clock private to it and its trial.
    struct Even<'a> {
        clock: &'a Cell<u64>,
        per_ms: u64,
        served: u64,
        waiting: VecDeque<u64>,
    }

    impl Server for Even<'_> {
        fn offer(&mut self, came: u64) {
            self.waiting.push_back(came);
        }

        fn turn(&mut self, ended: &mut dyn FnMut(u64)) {
            let due = self.clock.get() * self.per_ms / 1_000_000;
            while self.served < due {
                self.served += 1;
                if let Some(came) = self.waiting.pop_front() {
                    ended(came);
                }
            }
        }

        fn in_flight(&self) -> usize {
            self.waiting.len()
        }
    }

    #[test]
    fn a_server_fails_beyond_its_capacity() {
        let bears = |rate, stall| {
            let clock = Cell::new(0);
            let mut server =
                Even { clock: &clock, per_ms: 100, served: 0, waiting: VecDeque::new() };
            let trial = Trial { nanos: 300_000_000, stall };
            trial.bears(&mut server, rate, &|| clock.replace(clock.get() + 10_000)).0
        };
        assert!(bears(99_000.0, 0));
        assert!(!bears(200_000.0, 0));
        assert!(bears(50_000.0, 100_000_000), "recovered");
        assert!(!bears(50_000.0, 290_000_000), "not recovered");
    }
}
