//! What the runtime itself costs.

use super::super::experiment::{Experiment, Goal, Ratio};
use super::super::table::Table;
use super::command;

pub(super) const OPERATIONS: Experiment = Experiment {
    name: "op",
    title: "What an operation costs",
    paper: None,
    about: "An operation invoked and run on the same processor beside a boxed closure that is pushed to a vector and run; one that \
            is called on another stage and awaited beside a task spawned and awaited on tokio. All in one process, in turn.",
    differs: "An operation's closure is stored in its stage's own pool, so that no allocator is called.",
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
    title: "The same work on other runtimes",
    paper: None,
    about: "A child spawned and awaited; a question to another thread; a server on one core that sends back 64 bytes to each of 64 \
            connections. Each runtime has a process of its own, and they take turns.",
    differs: "Most of an echo's time is the kernel's, which is the same for all; a question to another thread is mostly the \
              time that cores take to tell each other.",
    quick: command(8, &["runtimes", "--rounds", "1"]),
    full: command(50, &["runtimes", "--rounds", "11"]),
    // Without its program it is missing, and says how to get it.
    peers: &[],
    tables: &[Table {
        title: "Each runtime",
        rows: "/rows",
        columns: &[
            ("runtime", "runtime"),
            ("child_ns", "a child, ns"),
            ("child_over", "over ours"),
            ("cross_ns", "another thread, ns"),
            ("cross_over", "over ours"),
            ("echo_us", "an echo, µs"),
            ("echo_over", "over ours"),
        ],
    }],
    picture: None,
    ratios: &[
        Ratio {
            at: "/least_child_over",
            says: "the best of the others over ours, a child",
            paper: None,
            goal: Goal::AtLeast(1.0),
        },
        Ratio {
            at: "/least_cross_over",
            says: "the best of the others over ours, another thread",
            paper: None,
            goal: Goal::AtLeast(1.0),
        },
        Ratio {
            at: "/least_echo_over",
            says: "the best of the others over ours, an echo",
            paper: None,
            goal: Goal::AtLeast(1.0),
        },
    ],
    charts: &[],
};
