//! `phalanx bench failure`: the TUX paper's failure zone (§5, Figure 7).
//!
//! A server near its capacity has more and more requests on its way at once. Where that makes each of
//! them dearer, a moment's delay is enough to push it over: it serves less than comes, and does not recover.

use std::fmt;
use std::io;
use std::time::Instant;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;

use crate::concurrency::{ARMS, Allocator, Order, Server, second_level, server};
use crate::stats::{maximum, median};
use crate::web::cores;

/// Requests on their way at which a server has failed: it would have no connection left.
const LIMIT: usize = 10_000;
/// Of a rate: how exactly the one is found at which a server fails.
const STEP: f64 = 0.02;
/// The part of a trial's time after which a delay must be made up for.
const END: f64 = 0.9;
/// Nanoseconds that a request may take then.
const LATE: u64 = 100_000_000;

/// Measure at which rate a server enters its failure zone, with a budget and without.
///
/// The requests and the servers of `bench concurrency`, in open loop: requests come at a uniform rate, whatever has
/// become of earlier ones. A server has failed when 10,000 are on their way, or when those that end in a trial's last tenth
/// have taken 100 ms. The highest rate at which it does not is found by bisection to 2 percent; once without any
/// disturbance, and once with the server held up at the beginning of a trial (--stall), as a busy machine
/// does. All take turns, round after round.
///
/// JSON: `rows[]` (`order`, `allocator`, `stall_ms`, `rate`: requests a second, the best of the rounds);
/// `bounded_over_unbounded` (budget and pools over events and the general allocator, median of the rounds' pairs),
/// `bounded_over_unbounded_stalled`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// KiB of code in each of the eight stages: 1, 2, 4, 8, 16 or 32
    #[arg(long, value_name = "N", default_value = "16",
          value_parser = PossibleValuesParser::new(["1", "2", "4", "8", "16", "32"])
              .map(|text| text.parse::<u64>().expect("a number of the list")))]
    pub kib: u64,

    /// How long the server is held up, in milliseconds
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 20,
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub stall: u64,

    /// Length of a trial, in milliseconds
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 500,
          value_parser = clap::value_parser!(u64).range(10..=10_000))]
    pub trial: u64,

    /// How many times everything is measured
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100))]
    pub rounds: usize,

    /// One round of short trials: only shows that it runs
    #[arg(long, conflicts_with_all = ["rounds", "trial"])]
    pub quick: bool,

    /// Write the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The rate at which the server with a budget and pools fails over that of events and the general allocator.
    pub bounded_over_unbounded: f64,
    /// The same where the server is held up at first.
    pub bounded_over_unbounded_stalled: f64,
    /// Each server, with and without a delay.
    pub rows: Vec<Row>,
    /// Of everything.
    pub rounds: usize,
    /// Whether it was only to show that it runs: then the figures mean nothing.
    pub quick: bool,
}

/// One server.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// In which requests go on.
    pub order: Order,
    /// What they take their memory from.
    pub allocator: Allocator,
    /// How long it was held up at the beginning.
    pub stall_ms: u64,
    /// Requests a second that it bears: the best of the rounds.
    pub rate: f64,
    #[serde(skip)]
    rates: Vec<f64>,
}

/// Measures in this process; the thread stays bound to one core for so long. Progress goes to stderr.
///
/// # Errors
/// When the kernel does not let the thread be bound.
pub fn run(options: &Options) -> io::Result<Report> {
    let (rounds, trial) = match options.quick {
        true => (1, 20),
        false => (options.rounds, options.trial),
    };
    let here = cores::Cores::choose(None, None)?.server;
    let cache = second_level();
    let mut rows: Vec<Row> = [0, options.stall]
        .into_iter()
        .flat_map(|stall_ms| {
            ARMS.map(|(order, allocator)| Row {
                order,
                allocator,
                stall_ms,
                rate: 0.0,
                rates: Vec::new(),
            })
        })
        .collect();
    cores::bound(here, || {
        for round in 1..=rounds {
            for row in &mut rows {
                eprintln!(
                    "round {round} of {rounds}: {:?}, {:?}, held up for {} ms",
                    row.order, row.allocator, row.stall_ms
                );
                let fresh = || server((row.order, row.allocator), options.kib, LIMIT, cache);
                let trial = Trial { nanos: trial * 1_000_000, stall: row.stall_ms * 1_000_000 };
                row.rates.push(trial.limit(&fresh));
            }
        }
    })?;
    rows.iter_mut().for_each(|row| row.rate = maximum(&row.rates));
    let of = |order, allocator, stalled| {
        let is = |row: &&Row| {
            (row.order, row.allocator, row.stall_ms > 0) == (order, allocator, stalled)
        };
        rows.iter().find(is).expect("all arms are measured")
    };
    let ratio = |stalled| {
        let [best, worst] = [
            of(Order::Bounded, Allocator::Pools, stalled),
            of(Order::Events, Allocator::General, stalled),
        ];
        let pairs = best.rates.iter().zip(&worst.rates);
        median(&pairs.map(|(best, worst)| best / worst).collect::<Vec<_>>())
    };
    Ok(Report {
        bounded_over_unbounded: ratio(false),
        bounded_over_unbounded_stalled: ratio(true),
        rows,
        rounds,
        quick: options.quick,
    })
}

/// How one rate is tried.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// How long.
    nanos: u64,
    /// For how long the server does nothing at first.
    stall: u64,
}

impl Trial {
    /// The highest rate, in requests a second, that a fresh server bears.
    fn limit(self, fresh: &dyn Fn() -> Box<dyn Server>) -> f64 {
        let mut low = 1_000.0;
        let mut high = 2.0 * low;
        let bears = |rate| {
            let start = Instant::now();
            self.bears(&mut *fresh(), rate, &|| start.elapsed().as_nanos() as u64)
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
        low
    }

    /// Whether the server is well at the end. The clock begins at zero.
    fn bears(self, server: &mut dyn Server, rate: f64, now: &dyn Fn() -> u64) -> bool {
        let late = (self.nanos as f64 * END) as u64;
        let (mut came, mut ended_late, mut too_late) = (0u64, 0u64, 0u64);
        loop {
            let at = now();
            if at >= self.nanos {
                // One in a hundred may have been delayed.
                return ended_late > 0 && too_late * 100 <= ended_late;
            }
            let due = (at as f64 * rate / 1e9) as u64;
            while came < due {
                // When it should have come, not when we came to it.
                server.offer((came as f64 * 1e9 / rate) as u64);
                came += 1;
            }
            if server.in_flight() >= LIMIT {
                return false;
            }
            if at < self.stall || server.in_flight() == 0 {
                std::hint::spin_loop();
                continue;
            }
            server.turn(&mut |came| {
                if at >= late {
                    ended_late += 1;
                    too_late += u64::from(at - came > LATE);
                }
            });
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "requests a second that a server bears ({} rounds)\n", self.rounds)?;
        writeln!(
            f,
            "{:<12}{:<12}{:>12}{:>16}",
            "order", "memory", "undisturbed", "held up at first"
        )?;
        for row in self.rows.iter().filter(|row| row.stall_ms == 0) {
            let same = |other: &&Row| {
                (other.order, other.allocator) == (row.order, row.allocator) && other.stall_ms > 0
            };
            let stalled = self.rows.iter().find(same).map_or(f64::NAN, |row| row.rate);
            let (order, memory) = (format!("{:?}", row.order), format!("{:?}", row.allocator));
            writeln!(f, "{order:<12}{memory:<12}{:>14.0}{stalled:>18.0}", row.rate)?;
        }
        writeln!(f, "\nbudget and pools over events and the general allocator")?;
        writeln!(f, "{:<24}{:>12.2}", "  undisturbed", self.bounded_over_unbounded)?;
        writeln!(f, "{:<24}{:>12.2}", "  held up at first", self.bounded_over_unbounded_stalled)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::VecDeque;

    use super::*;

    /// Serves so many in a millisecond of a clock that only it and its trial see.
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
    fn a_server_fails_where_more_comes_than_it_serves() {
        let bears = |rate, stall| {
            let clock = Cell::new(0);
            let mut server =
                Even { clock: &clock, per_ms: 100, served: 0, waiting: VecDeque::new() };
            let trial = Trial { nanos: 300_000_000, stall };
            trial.bears(&mut server, rate, &|| clock.replace(clock.get() + 10_000))
        };
        assert!(bears(99_000.0, 0));
        assert!(!bears(200_000.0, 0));
        assert!(bears(50_000.0, 100_000_000), "made up for");
        assert!(!bears(50_000.0, 290_000_000), "too late for that");
    }
}
