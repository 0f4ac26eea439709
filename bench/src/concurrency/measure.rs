//! In time: all arms in turn, round after round.

use std::io;
use std::time::Instant;

use super::arms::{ARMS, Server, server};
use super::options::Options;
use super::report::Row;
use crate::web::cores;

/// Measures in this process; the thread stays bound to one core for so long.
pub(super) fn run(options: &Options) -> io::Result<Vec<Row>> {
    let (in_flight, rounds, fewest) = options.plan();
    let cache = options.cache.unwrap_or_else(second_level);
    let here = cores::Cores::choose(options.place.server_core, None)?.server;
    let each = |in_flight: usize| {
        eprintln!("{in_flight} requests in flight");
        let count = fewest.max(in_flight);
        let mut servers = ARMS.map(|arm| {
            let mut server = server(arm, options.kib, 2 * in_flight, cache);
            (0..in_flight).for_each(|_| server.offer(0));
            // All of them have gone through, so that what follows is as it goes on.
            serve(&mut *server, in_flight + count);
            server
        });
        let mut times: [Vec<f64>; ARMS.len()] = Default::default();
        for _ in 0..rounds {
            for (server, times) in servers.iter_mut().zip(&mut times) {
                // What another has put into the caches is gone after these.
                serve(&mut **server, fewest / 10);
                let start = Instant::now();
                let served = serve(&mut **server, count);
                times.push(start.elapsed().as_nanos() as f64 / served as f64);
            }
        }
        let rows = ARMS.iter().zip(times);
        rows.map(|((order, allocator), times)| Row::new(*order, *allocator, in_flight, times))
            .collect::<Vec<_>>()
    };
    cores::bound(here, || in_flight.iter().flat_map(|n| each(*n)).collect())
}

/// Has `count` requests served, or a few more; one comes for each that has ended.
pub(super) fn serve(server: &mut dyn Server, count: usize) -> usize {
    let mut served = 0;
    while served < count {
        let mut ended = 0;
        server.turn(&mut |_| ended += 1);
        (0..ended).for_each(|_| server.offer(0));
        served += ended;
    }
    served
}

/// The second-level cache as the runtime has it: the machine's, or its own default.
pub(crate) fn second_level() -> usize {
    let (say, said) = std::sync::mpsc::channel();
    let mut graph = phalanx::Graph::new();
    let _ = graph.shared("nothing", ());
    let ran = phalanx::Runtime::new().processors(1).signals(false).run(graph, move |start| {
        let control = start.control();
        say.send(control.cache_bytes()).expect("waited for below");
        control.drain();
        Ok(())
    });
    ran.expect("a runtime that only ends");
    said.recv().expect("said above")
}
