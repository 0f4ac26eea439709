//! The command line of `phalanx-bench pipeline`.

use clap::Args;

use super::arms::MAX_WARM_UP_REQUESTS;
use crate::arguments::{kib, number};

/// Measure when cohorts pay: eight stages of generated code, run in different orders.
///
/// Every request passes eight stages of branchy machine code. It is run to completion (plain calls of the same
/// code, without a runtime); in cohorts of 1, 4, 16, 64 and 256 on the runtime (one stage each, one operation per
/// request and stage); with a thread per request; and by 128 connections that call and await one stage after
/// another, with a tuned cohort size (the automatic setting), and with all stages direct. The arms take turns in
/// one process, bound to one core; ratios are medians over the rounds, then over the processes.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// KiB of code per stage: 1, 2, 4, 8, 16 or 32; 4 is called tiny, 32 KiB in all
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,4,8,16,32", value_parser = kib())]
    pub(crate) kib: Vec<u64>,

    /// Rounds per process
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = number(1..=1000))]
    pub(crate) rounds: usize,

    /// Requests per round
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = number(1..=100_000))]
    pub(crate) requests: usize,

    /// Number of measuring processes, one after another; 0 measures in this process
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number(0..=100))]
    pub(crate) processes: usize,

    /// Count misses of the instruction cache under valgrind instead, for cohorts of 1 and 64: I1 and D1 of 32 KiB
    /// in 8 ways, LL of 1 MiB
    #[arg(long)]
    pub(crate) misses: bool,

    /// One short process: only checks that it runs
    #[arg(long, conflicts_with_all = ["rounds", "requests", "processes"])]
    pub(crate) quick: bool,

    /// Only run requests in cohorts of this size (0: to completion), for a simulator to observe
    #[arg(long, hide = true, value_name = "COHORT")]
    pub(crate) walk: Option<usize>,
}

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) kib: Vec<u64>,
    pub(crate) rounds: usize,
    pub(crate) requests: usize,
    /// Maximum number of requests until the tuner must have found a size.
    pub(crate) settle: usize,
    pub(crate) processes: usize,
}

impl Options {
    pub(crate) fn plan(&self) -> Plan {
        let kib = self.kib.clone();
        match self.quick {
            true => Plan { kib, rounds: 3, requests: 256, settle: 256, processes: 0 },
            false => Plan {
                kib,
                rounds: self.rounds,
                requests: self.requests,
                settle: MAX_WARM_UP_REQUESTS,
                processes: self.processes,
            },
        }
    }
}

impl Plan {
    /// The same parameters as arguments of another process.
    pub(crate) fn arguments(&self) -> [String; 3] {
        let kib: Vec<String> = self.kib.iter().map(u64::to_string).collect();
        [
            format!("--kib={}", kib.join(",")),
            format!("--rounds={}", self.rounds),
            format!("--requests={}", self.requests),
        ]
    }
}
