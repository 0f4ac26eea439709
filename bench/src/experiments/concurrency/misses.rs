//! Misses of simulated caches per request, under cachegrind.

use super::Options;
use super::arms::{self, ARMS, Allocator, Order};
use super::measure::serve;
use crate::arguments::name;
use crate::error::Error;
use crate::measure::{Misses, measure_each, record};
use crate::system::{cachegrind, interrupted};

record! {
    /// Misses of one arm.
    pub(crate) struct MissRow {
        /// The order in which requests advance.
        order: Order => "order", 0;
        /// The allocator of the requests' objects.
        allocator: Allocator => "memory", 0;
        /// Requests in flight.
        in_flight: usize => "in flight", 0;
        each: Misses, flatten;
    }
}

/// Measures each arm with each number of requests in flight.
pub(super) fn run(options: &Options) -> Result<Vec<MissRow>, Error> {
    let (in_flight, ..) = options.plan();
    let settings: Vec<_> =
        in_flight.into_iter().flat_map(|level| ARMS.map(|arm| (level, arm))).collect();
    let (rows, _) =
        measure_each(&settings, 1, |(in_flight, arm), _| row(options, *in_flight, *arm))?;
    Ok(rows.into_iter().flatten().collect())
}

fn row(
    options: &Options,
    in_flight: usize,
    (order, allocator): (Order, Allocator),
) -> Result<MissRow, Error> {
    eprintln!("{in_flight} in flight, {order:?}, {allocator:?}, under valgrind");
    let more = in_flight.max(2048);
    let [few, many] = [in_flight, in_flight + more].map(|requests| {
        let cache = options.cache.unwrap_or(cachegrind::L2);
        cachegrind::run([
            "concurrency".to_owned(),
            format!("--cache={cache}"),
            format!("--walk={requests}"),
            format!("--in-flight={in_flight}"),
            format!("--kib={}", options.kib),
            format!("--order={}", name(&order)),
            format!("--allocator={}", name(&allocator)),
        ])
    });
    // A signal may have ended them.
    interrupted()?;
    let each = many?.beyond(few?, more);
    Ok(MissRow { order, allocator, in_flight, each: each.into() })
}

/// Serves `requests` requests with `in_flight` at a time, on the simulated cache.
pub(crate) fn walk(options: &Options, requests: usize) {
    let arm =
        (options.order.unwrap_or(Order::Bounded), options.allocator.unwrap_or(Allocator::Pools));
    let in_flight = options.in_flight.first().copied().unwrap_or(1);
    let cache = options.cache.unwrap_or(cachegrind::L2);
    let mut server = arms::server(arm, options.kib, 2 * in_flight, cache);
    (0..in_flight).for_each(|_| server.offer(0));
    serve(&mut *server, requests);
}
