//! What the runtime itself costs.

use super::super::experiment::{Experiment, Goal, Ratio};
use super::command;

pub(super) const OPERATIONS: Experiment = Experiment {
    name: "op",
    title: "What an operation costs",
    paper: None,
    about: "An operation invoked and run on the same processor beside a boxed closure that is pushed to a vector and run; one that \
            is called on another stage and awaited beside a task spawned and awaited on tokio. All in one process, in turn.",
    differs: "An operation's closure is stored in its stage's own pool, so that no allocator is called.",
    quick: command(10, &["op", "--rounds", "7"]),
    full: command(30, &["op", "--rounds", "31"]),
    peers: &[],
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
