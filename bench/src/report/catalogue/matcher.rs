//! Content-based matching.

use super::super::experiment::{Chart, Experiment, Lines};
use super::{command, logarithmic};

pub(super) const MATCH: Experiment = Experiment {
    name: "match",
    title: "Matching events against a large index",
    paper: Some(
        "The publish/subscribe server of the 2002 paper (§5.2) matched an event against a million subscriptions in \
         0.57 ms by threads and in 0.47 ms staged; limiting cohorts to 4, 10 and 20 events reduced its performance by 21, 17 and 9 %.",
    ),
    about: "The same workload and others, one event at a time and in cohorts, by the same index and code, on one core.",
    differs: "The index is a fifth of the paper's for as many subscriptions and fits into this machine's third-level cache for \
              longer; its checks take 64 subscriptions at a time, so that memory is a larger part of what is left.",
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
        title: "Events a second by the size of the cohort",
        rows: "/rows",
        only: &[("cores", "1")],
        lines: Lines::By { fields: &["workload", "access", "subscriptions"], y: "events_per_s" },
        x: logarithmic("cohort", "events in a cohort"),
        y: logarithmic("", "events a second"),
    }],
};

pub(super) const INDEX: Experiment = Experiment {
    name: "index",
    title: "Matching, by how many subscriptions there are",
    paper: None,
    about: "Events against indexes of growing size, one event at a time and in cohorts, on one core.",
    differs: "Cohorts pay when the index no longer fits into the caches; while it does, walking it once an event is as good.",
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
        title: "Events a second by the size of the index",
        rows: "/rows",
        only: &[("cores", "1")],
        lines: Lines::By { fields: &["access", "form", "cohort"], y: "events_per_s" },
        x: logarithmic("subscriptions", "subscriptions"),
        y: logarithmic("", "events a second"),
    }],
};

pub(super) const FIGURE8: Experiment = Experiment {
    name: "figure8",
    title: "A publish, by how many publish (Figure 8 of the 2002 paper)",
    paper: Some(
        "With a million subscriptions (2002, §5.2) the threaded server took 0.57 ms for an event with four or more clients; \
         the staged one 0.53 ms with 4 and 0.47 ms with 16 and more.",
    ),
    about: "Clients publish over sockets and wait for their answers; a threaded twin and a staged server match by the same index and \
            code.",
    differs: "Cohorts need events that come together: with few clients there are none, and the two do the same.",
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
