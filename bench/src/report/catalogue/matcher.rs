//! Content-based matching.

use super::super::experiment::{Chart, Experiment, Lines};
use super::{command, logarithmic};

pub(super) const MATCH: Experiment = Experiment {
    name: "match",
    title: "Matching events against a large index",
    paper: Some(
        "The publish/subscribe server of the 2002 paper (§5.2) matched an event against a million subscriptions in \
         0.57 ms with threads and in 0.47 ms with stages; limiting cohorts to 4, 10 and 20 events reduced its performance by 21, 17 and 9 %.",
    ),
    about: "The same workload and others, one event at a time and in cohorts, with the same index and code, on one core.",
    differs: "For as many subscriptions the index is a fifth of the paper's, so larger ones fit into this machine's third-level \
              cache; it checks 64 subscriptions at a time, so that memory is a larger part of the remaining time.",
    quick: command(
        25,
        &[
            "match",
            "--subscriptions=1000000",
            "--workload=W0,W2",
            "--cohort=0,4,64,1024,auto",
            "--rounds=3",
        ],
    ),
    full: command(600, &["match", "--subscriptions", "1000000"]),
    peers: &[],
    tables: &[],
    picture: None,
    ratios: &[],
    charts: &[Chart {
        title: "Events per second by cohort size",
        rows: "/rows",
        only: &[("cores", "1")],
        lines: Lines::By { fields: &["workload", "access", "subscriptions"], y: "events_per_s" },
        x: logarithmic("cohort", "events in a cohort"),
        y: logarithmic("", "events per second"),
    }],
};

pub(super) const INDEX: Experiment = Experiment {
    name: "index",
    title: "Matching by number of subscriptions",
    paper: None,
    about: "Events against indexes of growing size, one event at a time and in cohorts, on one core.",
    differs: "Cohorts pay when the index no longer fits into the caches; while it fits, traversing it once per event is as fast.",
    quick: command(
        5,
        &[
            "match",
            "--subscriptions=1000,10000,100000",
            "--workload=W0",
            "--cohort=0,1024",
            "--rounds=3",
        ],
    ),
    full: command(
        60,
        &[
            "match",
            "--subscriptions=1000,10000,100000,1000000,3000000",
            "--workload=W0",
            "--cohort=0,64,1024,auto",
        ],
    ),
    peers: &[],
    tables: &[],
    picture: None,
    ratios: &[],
    charts: &[Chart {
        title: "Events per second by index size",
        rows: "/rows",
        only: &[("cores", "1")],
        lines: Lines::By { fields: &["access", "form", "cohort"], y: "events_per_s" },
        x: logarithmic("subscriptions", "subscriptions"),
        y: logarithmic("", "events per second"),
    }],
};

pub(super) const FIGURE8: Experiment = Experiment {
    name: "figure8",
    title: "Response time of a publish by number of clients (Figure 8 of the 2002 paper)",
    paper: Some(
        "With a million subscriptions (2002, §5.2) the threaded server took 0.57 ms per event with four or more clients; \
         the staged one 0.53 ms with 4 and 0.47 ms with 16 and more.",
    ),
    about: "Clients publish over sockets and wait for their answers; a threaded twin and a staged server use the same index and \
            code.",
    differs: "Cohorts need concurrent events: with few clients there are none, and both servers do the same.",
    quick: command(15, &["figure8", "--clients", "1,4,16,64", "--rounds", "3", "--slice", "150"]),
    full: command(110, &["figure8"]),
    peers: &[],
    tables: &[],
    picture: None,
    ratios: &[],
    charts: &[Chart {
        title: "Mean response time against publishing clients",
        rows: "/rows",
        only: &[],
        lines: Lines::By { fields: &["server"], y: "mean_us" },
        x: logarithmic("clients", "clients"),
        y: logarithmic("", "µs"),
    }],
};
