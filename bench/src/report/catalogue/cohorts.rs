//! Experiments on the gain from cohorts.

use super::super::experiment::{Chart, Experiment, Goal, Lines, Ratio};
use super::{command, linear, logarithmic};

pub(super) const FIGURE2: Experiment = Experiment {
    name: "figure2",
    title: "A call in a cohort of k (Figure 2 of the 2002 paper)",
    paper: Some(
        "Larus and Parkes (2002, §2) wrote 4 KiB blocks with system calls in cohorts of k, after flushing the caches before \
         each cohort: a call in a cohort of 8 cost 0.32 of a single one, in a cohort of 64 0.18.",
    ),
    about: "The same here: each cohort writes blocks at random positions of a file in the page cache, after 32 MiB of memory \
            and 256 KiB of branchy code were traversed.",
    differs: "A call costs fewer cycles here, and cache misses are a smaller part of them; the gain of a cohort depends on \
              the size of the kernel's code path relative to the caches.",
    quick: command(2, &["figure2"]),
    full: command(30, &["figure2"]),
    peers: &[],
    tables: &[],
    picture: None,
    ratios: &[
        Ratio {
            at: "/k8_over_k1",
            says: "a call in a cohort of 8 over a single one",
            paper: Some(0.32),
            goal: Goal::AtMost(1.0),
        },
        Ratio {
            at: "/k64_over_k1",
            says: "a call in a cohort of 64 over a single one",
            paper: Some(0.18),
            goal: Goal::AtMost(1.0),
        },
    ],
    charts: &[Chart {
        title: "Cost of a call relative to a single one",
        rows: "/cohorts",
        only: &[],
        lines: Lines::Fields(&[("write of 4 KiB", "over_k1")]),
        x: logarithmic("k", "calls in a cohort"),
        y: linear("", "over k = 1"),
    }],
};

pub(super) const PIPELINE: Experiment = Experiment {
    name: "pipeline",
    title: "When cohorts pay: code size",
    paper: Some(
        "Cohorts gain where a stage's code and data stay in the caches for the whole cohort (2002, §1–2). \
         The paper does not show how large a stage must be; this figure does.",
    ),
    about: "Requests pass eight stages of generated, branchy code: by plain calls, one request after another; on the runtime \
            in cohorts; in the automatic setting; and with a thread each.",
    differs: "Below the size of the first-level caches there is nothing to save, and the cost of the runtime shows; beyond \
              the capacity of the branch predictor cohorts are several times as fast.",
    quick: command(15, &["pipeline", "--kib", "4,8,32", "--processes", "2", "--rounds", "7"]),
    full: command(300, &["pipeline", "--kib", "1,2,4,8,16,32"]),
    peers: &[],
    tables: &[],
    picture: None,
    ratios: &[],
    charts: &[
        Chart {
            title: "Time over run to completion by plain calls, inverted: above 1 is faster",
            rows: "/sizes",
            only: &[],
            lines: Lines::Fields(&[
                ("cohorts of 64", "rtc_over_cohort64"),
                ("automatic", "rtc_over_auto"),
                ("direct stages", "rtc_over_direct"),
            ]),
            x: logarithmic("kib_per_stage", "KiB of code in each of eight stages"),
            y: linear("", "times as fast as plain calls"),
        },
        Chart {
            title: "Time per request through all stages",
            rows: "/sizes",
            only: &[],
            lines: Lines::Fields(&[
                ("plain calls", "run_to_completion_ns"),
                ("automatic", "auto_ns"),
                ("a thread each", "thread_per_request_ns"),
            ]),
            x: logarithmic("kib_per_stage", "KiB of code in each of eight stages"),
            y: logarithmic("", "ns per request"),
        },
    ],
};

pub(super) const MISSES: Experiment = Experiment {
    name: "misses",
    title: "When cohorts pay: cache misses per request",
    paper: None,
    about: "Misses of a simulated first-level instruction cache (32 KiB, 8 ways) per request through eight stages of generated \
            code, in cohorts of 1 and of 64, counted by cachegrind and therefore free of noise.",
    differs: "A cohort loads a stage's code into the cache once; the simulation excludes prefetching and the kernel.",
    quick: command(5, &["pipeline", "--misses", "--kib", "2,8"]),
    full: command(60, &["pipeline", "--misses", "--kib", "1,2,4,8,16,32"]),
    peers: &[],
    tables: &[],
    picture: None,
    ratios: &[],
    charts: &[Chart {
        title: "Simulated misses of the instruction cache",
        rows: "/rows",
        only: &[],
        lines: Lines::By { fields: &["cohort"], y: "i1_misses_per_request" },
        x: logarithmic("kib_per_stage", "KiB of code in each of eight stages"),
        y: linear("", "misses per request"),
    }],
};

pub(super) const LADDER: Experiment = Experiment {
    name: "ladder",
    title: "The tuned cohort size",
    paper: None,
    about: "Five pipelines as above. The automatic setting is compared with every declared size that it could have chosen, and \
            with run to completion.",
    differs: "Regret above 1 is the cost of tuning, or of a size that was found while the machine was disturbed.",
    quick: command(22, &["ladder", "--processes", "1", "--rounds", "2"]),
    full: command(240, &["ladder"]),
    peers: &[],
    tables: &[],
    picture: None,
    ratios: &[
        Ratio {
            at: "/worst_regret",
            says: "the automatic setting over the best declared size, the worst pipeline",
            paper: None,
            goal: Goal::AtMost(1.05),
        },
        Ratio {
            at: "/tiny_rtc_over_auto",
            says: "plain calls over the automatic setting, with tiny stages",
            paper: None,
            goal: Goal::AtLeast(0.95),
        },
    ],
    charts: &[Chart {
        title: "The automatic setting over the best declared size",
        rows: "/pipelines",
        only: &[],
        lines: Lines::Fields(&[("regret", "regret")]),
        x: logarithmic("kib_per_stage", "KiB of code in each of eight stages"),
        y: linear("", "time over the best"),
    }],
};

pub(super) const INTERLEAVE: Experiment = Experiment {
    name: "interleave",
    title: "Loading memory while other operations run",
    paper: None,
    about: "Random lookups in a hash table of 256 MiB inside a stage, with and without awaiting a prefetch, in cohorts of 64.",
    differs: "The gain is the hidden memory latency less the cost of suspending an operation.",
    quick: command(4, &["interleave", "--rounds", "5"]),
    full: command(60, &["interleave"]),
    peers: &[],
    tables: &[],
    picture: None,
    ratios: &[Ratio {
        at: "/speedup",
        says: "a lookup without the prefetch over one with it",
        paper: None,
        goal: Goal::AtLeast(1.0),
    }],
    charts: &[],
};
