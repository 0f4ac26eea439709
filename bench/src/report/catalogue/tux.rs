//! The figures of the TUX paper.

use super::super::experiment::{Chart, Experiment, Goal, Lines, Ratio};
use super::super::table::Table;
use super::servers::PEERS;
use super::{command, linear, logarithmic};

pub(super) const CONCURRENCY: Experiment = Experiment {
    name: "concurrency",
    title: "Many concurrent requests (Figures 1 and 7(b) and (c) of the TUX paper)",
    paper: Some(
        "The throughput of the TUX web server (2006, §2) fell as concurrency grew beyond about 40 requests. \
         With an allocator laid out for the second-level cache and a scheduler that checks for its memory, throughput \
         rose by up to 40 % at about 2,500, and L2 misses fell by up to 75 % (§5.3).",
    ),
    about: "Requests with 10 KB in seven objects pass eight stages of 16 KiB of code: in an event server, which \
            advances any request by one stage; in cohorts of everything queued; and in cohorts with a budget of this \
            machine's second-level cache. Objects come from the general allocator or the runtime's pools.",
    differs: "An event server returns to a request after all others, when its data has been evicted from the cache. The \
            budget starts no more requests than fit in the cache; the others wait with only their connections in memory.",
    quick: command(
        12,
        &["concurrency", "--rounds=3", "--in-flight=64,1024,10000", "--no-misses", "--no-servers"],
    ),
    full: command(250, &["concurrency", "--rounds", "5"]),
    peers: PEERS,
    tables: &[],
    picture: None,
    ratios: &[
        Ratio {
            at: "/unbounded_general_over_bounded_pools",
            says: "events and the general allocator over a budget and pools, with the most in flight",
            paper: Some(1.4),
            goal: Goal::AtLeast(1.5),
        },
        Ratio {
            at: "/bounded_most_over_fewest",
            says: "throughput of the budget and pools with the most in flight over that with the fewest",
            paper: None,
            goal: Goal::AtLeast(0.9),
        },
        Ratio {
            at: "/waiting_bounded_over_unbounded",
            says: "time of requests that wait for I/O, with the budget over without",
            paper: None,
            goal: Goal::AtMost(1.0),
        },
        Ratio {
            at: "/l2_misses_bounded_over_unbounded",
            says: "simulated second-level misses with the budget and pools over those without",
            paper: Some(0.25),
            goal: Goal::AtMost(0.4),
        },
    ],
    charts: &[
        Chart {
            title: "Time per request",
            rows: "/rows",
            only: &[],
            lines: Lines::By { fields: &["order", "allocator"], y: "ns" },
            x: logarithmic("in_flight", "requests in flight"),
            y: linear("", "ns"),
        },
        Chart {
            title: "Servers: processor time per request",
            rows: "/web",
            only: &[],
            lines: Lines::By { fields: &["server"], y: "cpu_us_per_request" },
            x: logarithmic("connections", "connections"),
            y: linear("", "µs"),
        },
    ],
};

pub(super) const FAILURE: Experiment = Experiment {
    name: "failure",
    title: "The failure zone (Figure 7(a) of the TUX paper)",
    paper: Some(
        "With that allocator and scheduler TUX (2006, §5.3) handled about 21 % more requests per second before it failed.",
    ),
    about: "The same requests in open loop at a uniform rate; the highest rate at which a server has neither 10,000 in \
            flight nor answers that take 100 ms. Once undisturbed, and once after an initial stall of 20 ms.",
    differs: "If the cost per request grows with the number in flight, a server never recovers from a short delay.",
    quick: command(16, &["failure", "--rounds", "1", "--trial", "100"]),
    full: command(160, &["failure", "--rounds", "2"]),
    peers: &[],
    tables: &[Table {
        title: "Sustained requests per second",
        rows: "/rows",
        columns: &[
            ("order", "order"),
            ("allocator", "memory"),
            ("stall_ms", "initial stall, ms"),
            ("rate", "requests/s"),
        ],
    }],
    picture: None,
    ratios: &[
        Ratio {
            at: "/bounded_over_unbounded",
            says: "the sustained rate with a budget and pools over that of events and the general allocator",
            paper: Some(1.21),
            goal: Goal::AtLeast(1.0),
        },
        Ratio {
            at: "/bounded_over_unbounded_stalled",
            says: "the same after a stall",
            paper: None,
            goal: Goal::AtLeast(1.0),
        },
    ],
    charts: &[],
};
