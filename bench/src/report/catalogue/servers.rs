//! Comparisons of servers.

use super::super::experiment::{Chart, Experiment, Goal, Lines, Ratio};
use super::super::table::Table;
use super::{command, linear, logarithmic};

pub(super) const PEERS: &[(&str, &str)] = &[
    ("nginx", "apt-get install nginx-light"),
    ("lighttpd", "apt-get install lighttpd"),
    ("h2o", "apt-get install h2o"),
    ("caddy", "apt-get install caddy"),
];

pub(super) const FIGURE6: Experiment = Experiment {
    name: "figure6",
    title: "Web servers under the load of users (Figure 6 of the 2002 paper)",
    paper: Some(
        "Under SURGE's users (2002, §5.1) the staged server returned about 6 % fewer pages than the threaded one at light \
         load and up to 13 % more as the load grew. Its latency was almost 20 times the threaded server's at light load; it \
         grew 2.3 times where the threaded server's grew 45 times, to the same level.",
    ),
    about: "Each user requests a page and its embedded objects over a new connection, and thinks before the next. Phalanx, its \
            threaded twin with the same HTTP code, and others, on one core.",
    differs: "An idle processor here sleeps in the kernel and is woken at once, so that few users incur no penalty.",
    quick: command(
        30,
        &["figure6", "--processors=1", "--users", "64,512,2048", "--slices", "1", "--slice", "0.5"],
    ),
    full: command(300, &["figure6", "--processors=1", "--slices", "3"]),
    peers: PEERS,
    tables: &[],
    picture: None,
    ratios: &[
        Ratio {
            at: "/twin_growth_over_phalanx",
            says: "growth of the twin's latency over that of Phalanx, from the fewest to the most users",
            paper: Some(19.6),
            goal: Goal::AtLeast(1.0),
        },
        Ratio {
            at: "/throughput_over_twin",
            says: "throughput of Phalanx over the twin with the most users",
            paper: None,
            goal: Goal::AtLeast(1.0),
        },
    ],
    charts: &[
        Chart {
            title: "Bandwidth against users",
            rows: "/rows",
            only: &[],
            lines: Lines::By { fields: &["server"], y: "mib_per_second" },
            x: logarithmic("users", "users"),
            y: linear("", "MiB per second"),
        },
        Chart {
            title: "Mean latency against users",
            rows: "/rows",
            only: &[],
            lines: Lines::By { fields: &["server"], y: "mean_ms" },
            x: logarithmic("users", "users"),
            y: logarithmic("", "ms"),
        },
    ],
};

pub(super) const FIGURE4: Experiment = Experiment {
    name: "figure4",
    title: "A profile of the running web server's stages (Figure 4 of the 2002 paper)",
    paper: Some(
        "The 2002 paper (§3.5) drew a staged server as its stages on each processor with their queues, waits and times, \
         and the operations between them, as an overview of performance that helps to identify bottlenecks.",
    ),
    about: "The web server on one processor with 256 connections that request small files, as reported at its admin \
            address; `phalanx top` and the admin page show the same live.",
    differs: "Stages that only forward operations run inline here and have no boxes of their own.",
    quick: command(4, &["figure4", "--processors=1", "--slice", "1"]),
    full: command(6, &["figure4", "--processors=1"]),
    peers: &[],
    tables: &[Table {
        title: "Stages",
        rows: "/rows",
        columns: &[
            ("stage", "stage"),
            ("operations_per_second", "operations/s"),
            ("cohort_mean", "in a cohort"),
            ("queue_mean", "queued"),
            ("wait_us", "wait, µs"),
            ("run_ns", "run, ns"),
            ("share", "share of time"),
        ],
    }],
    picture: Some("/picture"),
    ratios: &[],
    charts: &[],
};

pub(super) const FIGURE7: Experiment = Experiment {
    name: "figure7",
    title: "The cost of a request, staged and threaded (Figure 7 of the 2002 paper)",
    paper: Some(
        "Figure 7 (2002, §5.1) shows the cycles per instruction and the L2 misses of both web servers. The processor \
         performance of the staged one degraded less under load.",
    ),
    about: "Phalanx and its threaded twin serve small files to increasing numbers of connections. Under valgrind: instructions \
            and misses of a simulated second-level cache (1 MiB, 8 ways). Without it: cycles of processor time, including the \
            kernel.",
    differs: "The paper used hardware counters, which virtual machines lack. The simulation excludes prefetching and the \
              kernel, whose scheduling of threads is most of the cost of a threaded server.",
    quick: command(24, &["figure7", "--processors=1", "--connections", "1,64", "--quick"]),
    full: command(110, &["figure7", "--processors=1"]),
    // Without valgrind the experiment reports how to install it.
    peers: &[],
    tables: &[Table {
        title: "A request",
        rows: "/rows",
        columns: &[
            ("server", "server"),
            ("connections", "connections"),
            ("instructions", "instructions"),
            ("i1_misses", "I1 misses"),
            ("l2_misses", "L2 misses"),
            ("cycles", "cycles"),
            ("own_cycles", "cycles outside the kernel"),
            ("own_cycles_per_instruction", "per instruction"),
        ],
    }],
    picture: None,
    ratios: &[
        Ratio {
            at: "/instructions_over_twin",
            says: "instructions of Phalanx outside the kernel over the twin, with the most connections",
            paper: None,
            goal: Goal::AtMost(1.0),
        },
        Ratio {
            at: "/l2_misses_over_twin",
            says: "simulated second-level misses of Phalanx over the twin",
            paper: None,
            goal: Goal::AtMost(1.0),
        },
        Ratio {
            at: "/cycles_over_twin",
            says: "cycles of Phalanx, including the kernel, over the twin",
            paper: None,
            goal: Goal::AtMost(1.0),
        },
    ],
    charts: &[Chart {
        title: "Cycles of processor time per request, including the kernel",
        rows: "/rows",
        only: &[],
        lines: Lines::By { fields: &["server"], y: "cycles" },
        x: logarithmic("connections", "connections"),
        y: linear("", "cycles"),
    }],
};

pub(super) const WEB: Experiment = Experiment {
    name: "web",
    title: "Processor time per request",
    paper: None,
    about: "Small files over keep-alive connections; the servers have one processor each and share a core, the load has another. The floor is a \
            bare loop on the same driver with one fixed answer.",
    differs: "Most of a request's time is sending and receiving in the kernel, which is the same for all.",
    quick: command(
        36,
        &["web", "--processors=1", "--connections", "64", "--slices", "6", "--slice", "0.15"],
    ),
    full: command(290, &["web", "--processors=1", "--connections", "64,256", "--slices", "7"]),
    peers: PEERS,
    tables: &[],
    picture: None,
    ratios: &[
        Ratio {
            at: "/phalanx_over_nginx",
            says: "Phalanx over nginx",
            paper: None,
            goal: Goal::AtMost(0.5),
        },
        Ratio {
            at: "/phalanx_over_floor",
            says: "Phalanx over the floor",
            paper: None,
            goal: Goal::AtMost(1.1),
        },
        Ratio {
            at: "/twin_over_phalanx",
            says: "the threaded twin over Phalanx",
            paper: None,
            goal: Goal::AtLeast(1.8),
        },
    ],
    charts: &[Chart {
        title: "Processor time per request",
        rows: "/rows",
        only: &[("scene", "small")],
        lines: Lines::By { fields: &["server", "driver"], y: "cpu_us_per_request_median" },
        x: logarithmic("connections", "connections"),
        y: linear("", "µs"),
    }],
};

pub(super) const LIGHT: Experiment = Experiment {
    name: "light",
    title: "Latency at light load",
    paper: Some(
        "The latency of the 2002 paper's staged server was almost 20 times the threaded server's at light load (§5.1, \
         Figure 6). The paper names no cause. Its idle processors slept for exponentially growing intervals (§4.1.2).",
    ),
    about: "Small files in open loop at 1, 5 and 20 % of the slower server's capacity.",
    differs: "A processor parks in its driver, and the kernel wakes it like any blocked thread.",
    quick: command(16, &["light", "--processors=1", "--slices", "3", "--slice", "0.4"]),
    full: command(120, &["light", "--processors=1"]),
    peers: &[],
    tables: &[],
    picture: None,
    ratios: &[
        Ratio {
            at: "/p50_over_twin",
            says: "median of Phalanx over the twin, the worst load",
            paper: Some(20.0),
            goal: Goal::AtMost(1.0),
        },
        Ratio {
            at: "/p99_over_twin",
            says: "99th percentile of Phalanx over the twin, the worst load",
            paper: None,
            goal: Goal::AtMost(1.0),
        },
    ],
    charts: &[Chart {
        title: "Median latency against load",
        rows: "/rows",
        only: &[],
        lines: Lines::Fields(&[("phalanx", "phalanx_p50_us"), ("twin", "twin_p50_us")]),
        x: logarithmic("load", "share of the capacity"),
        y: linear("", "µs"),
    }],
};

pub(super) const OVERLOAD: Experiment = Experiment {
    name: "overload",
    title: "Goodput under overload",
    paper: None,
    about: "Large files in open loop, from half to three times the server's capacity. Goodput counts answers within the \
            latency objective.",
    differs: "A server that admits more than it can serve in time answers every request too late.",
    quick: command(
        22,
        &["overload", "--processors=1", "--loads=0.5,0.9,1.25,2", "--slices=1", "--slice=0.7"],
    ),
    full: command(290, &["overload", "--processors=1", "--slices", "5"]),
    peers: &[("nginx", "apt-get install nginx-light")],
    tables: &[],
    picture: None,
    ratios: &[],
    charts: &[
        Chart {
            title: "Goodput against offered load",
            rows: "/rows",
            only: &[],
            lines: Lines::By { fields: &["server"], y: "goodput_over_capacity" },
            x: linear("load", "offered load over capacity"),
            y: linear("", "goodput over capacity"),
        },
        Chart {
            title: "99th percentile of successful answers",
            rows: "/rows",
            only: &[],
            lines: Lines::By { fields: &["server"], y: "p99_ms" },
            x: linear("load", "offered load over capacity"),
            y: logarithmic("", "ms"),
        },
    ],
};

pub(super) const DIAL: Experiment = Experiment {
    name: "dial",
    title: "Batching delay",
    paper: Some(
        "The 2002 paper (§2) states that a server can defer a request until a cohort of computations has arrived. It \
         gives no bound for the delay and no measurement.",
    ),
    about: "Savings and costs of `phalanx web --batch-delay`: small files in open loop, at 10 to 95 % of the closed-loop capacity, \
            with a server per setting.",
    differs: "Near saturation cohorts fill by themselves, and near idle there is nothing to wait for.",
    quick: command(
        20,
        &["dial", "--processors=1", "--holds", "0,1000", "--slices", "1", "--slice", "0.3"],
    ),
    full: command(200, &["dial", "--processors=1"]),
    peers: &[],
    tables: &[],
    picture: None,
    ratios: &[],
    charts: &[
        Chart {
            title: "Processor time per request, relative to no delay",
            rows: "/rows",
            only: &[],
            lines: Lines::By { fields: &["hold_us"], y: "cpu_over_first" },
            x: linear("load", "share of the capacity"),
            y: linear("", "over --batch-delay 0"),
        },
        Chart {
            title: "Median latency added",
            rows: "/rows",
            only: &[],
            lines: Lines::By { fields: &["hold_us"], y: "p50_added_us" },
            x: linear("load", "share of the capacity"),
            y: linear("", "µs"),
        },
    ],
};

pub(super) const BROKER: Experiment = Experiment {
    name: "broker",
    title: "The MQTT broker compared with others",
    paper: None,
    about: "Messages per second of the broker's processor time: one client to another, one to a hundred, a hundred to one, \
            eight to eight that share a subscription, \
            and sixty-four publishers with QoS 1, for Phalanx also with a journal. One processor each. Mosquitto runs \
            with and without Nagle's algorithm, and the better counts.",
    differs: "Mosquitto reads, writes and polls per packet; the packets of a cohort share these calls, and the writes to the disk.",
    quick: command(
        12,
        &[
            "broker",
            "--processors=1",
            "--shape",
            "fan-out,acknowledged",
            "--rounds",
            "1",
            "--slice",
            "0.2",
        ],
    ),
    full: command(120, &["broker", "--processors=1", "--rounds", "5", "--slice", "0.3"]),
    peers: &[
        ("mosquitto", "apt-get install mosquitto"),
        ("rumqttd", "cargo xtask peers"),
        ("mochi-mqtt", "cargo xtask peers"),
    ],
    tables: &[Table {
        title: "Messages",
        rows: "/rows",
        columns: &[
            ("shape", "shape"),
            ("server", "server"),
            ("qos", "QoS"),
            ("publishers", "publishers"),
            ("subscribers", "subscribers"),
            ("per_cpu_s", "per second of processor time"),
            ("per_s", "per second"),
            ("over_mosquitto", "over mosquitto"),
            ("over_best_peer", "over the best peer"),
        ],
    }],
    picture: None,
    ratios: &[
        Ratio {
            at: "/worst_over_mosquitto",
            says: "messages per second of processor time over mosquitto, the worst shape",
            paper: None,
            goal: Goal::AtLeast(2.0),
        },
        Ratio {
            at: "/worst_over_best_peer",
            says: "the same over the best peer, the worst shape",
            paper: None,
            goal: Goal::AtLeast(1.0),
        },
        Ratio {
            at: "/kept_acknowledged_per_s",
            says: "messages per second acknowledged after a write to the disk",
            paper: None,
            goal: Goal::AtLeast(150_000.0),
        },
    ],
    charts: &[],
};
