//! Experiments on the cost of the runtime.

use super::super::experiment::{Experiment, Goal, Ratio};
use super::super::table::Table;
use super::command;

pub(super) const OPERATIONS: Experiment = Experiment {
    name: "op",
    title: "The cost of an operation",
    paper: None,
    about: "An operation invoked and run on the same processor, compared with a boxed closure pushed to a vector and run; an operation \
            called on another stage and awaited, compared with a task spawned and awaited on tokio. All in one process, in turn.",
    differs: "An operation's closure is stored in its stage's pool, without a call to the allocator.",
    quick: command(4, &["op", "--rounds", "7"]),
    full: command(30, &["op", "--rounds", "31"]),
    peers: &[],
    tables: &[],
    picture: None,
    ratios: &[
        Ratio {
            at: "/dispatch_over_boxed_fn",
            says: "an operation over a boxed closure",
            paper: None,
            goal: Goal::AtMost(1.0),
        },
        Ratio {
            at: "/tokio_over_call",
            says: "a tokio task over an operation that is called and awaited",
            paper: None,
            goal: Goal::AtLeast(1.0),
        },
    ],
    charts: &[],
};

pub(super) const RUNTIMES: Experiment = Experiment {
    name: "runtimes",
    title: "The same tasks on other runtimes",
    paper: None,
    about: "Spawning and awaiting a child; a call to another thread; a server on one core that echoes 64 bytes to each of 64 \
            connections. Each runtime runs in a separate process, and they take turns.",
    differs: "Most of an echo's time is spent in the kernel, which is the same for all; a call to another thread is mostly the \
              communication latency between cores.",
    quick: command(8, &["runtimes", "--rounds", "1"]),
    full: command(50, &["runtimes", "--rounds", "11"]),
    // Without its program the experiment reports how to install it.
    peers: &[],
    tables: &[Table {
        title: "Each runtime",
        rows: "/rows",
        columns: &[
            ("runtime", "runtime"),
            ("child_ns", "a child, ns"),
            ("child_over", "over Phalanx"),
            ("cross_ns", "another thread, ns"),
            ("cross_over", "over Phalanx"),
            ("echo_us", "an echo, µs"),
            ("echo_over", "over Phalanx"),
        ],
    }],
    picture: None,
    ratios: &[
        Ratio {
            at: "/least_child_over",
            says: "the best of the others over Phalanx, a child",
            paper: None,
            goal: Goal::AtLeast(1.0),
        },
        Ratio {
            at: "/least_cross_over",
            says: "the best of the others over Phalanx, another thread",
            paper: None,
            goal: Goal::AtLeast(1.0),
        },
        Ratio {
            at: "/least_echo_over",
            says: "the best of the others over Phalanx, an echo",
            paper: None,
            goal: Goal::AtLeast(1.0),
        },
    ],
    charts: &[],
};
