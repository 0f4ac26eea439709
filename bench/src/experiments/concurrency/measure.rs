//! Measures servers in turn, round after round.

use std::fmt::Debug;

use super::arms::Server;
use crate::measure::{Rounds as _, Stretch, median, minimum};

/// Parameters of measuring servers in turn.
pub(super) struct Turns {
    /// Requests in flight.
    pub(super) in_flight: usize,
    /// Number of turns per server.
    pub(super) rounds: usize,
    /// Uncounted requests at the beginning of a turn.
    pub(super) first: usize,
    /// Counted requests of a turn.
    pub(super) count: usize,
}

impl Turns {
    /// Nanoseconds per request in each turn, for the `server` of each of `kinds`.
    pub(super) fn measure<K: Debug, const N: usize>(
        &self,
        kinds: [K; N],
        server: impl Fn(K) -> Box<dyn Server>,
    ) -> [Vec<f64>; N] {
        let mut servers = kinds.map(|kind| {
            let name = format!("{kind:?}, {} in flight", self.in_flight);
            let mut server = server(kind);
            (0..self.in_flight).for_each(|_| server.offer(0));
            // Warm up: every request in flight has completed once.
            serve(&mut *server, self.in_flight + self.count);
            (name, server)
        });
        let mut times = [const { Vec::new() }; N];
        for _ in 0..self.rounds {
            for ((name, server), times) in servers.iter_mut().zip(&mut times) {
                serve(&mut **server, self.first);
                let stretch = Stretch::begin();
                let served = serve(&mut **server, self.count);
                times.push(stretch.end().of(&*name, served));
            }
        }
        times
    }
}

/// Two servers compared.
pub(super) struct Pair {
    /// Nanoseconds per request of each, the minima of the rounds.
    pub(super) ns: [f64; 2],
    /// Time of the second over that of the first: the median of the rounds' ratios.
    pub(super) ratio: f64,
}

impl Turns {
    /// Compares the servers of two kinds.
    pub(super) fn compare<K: Debug>(
        &self,
        kinds: [K; 2],
        server: impl Fn(K) -> Box<dyn Server>,
    ) -> Pair {
        let [first, second] = self.measure(kinds, server);
        let ratio = median(&second.over(&first, |ns| *ns));
        Pair { ns: [minimum(&first), minimum(&second)], ratio }
    }
}

/// Serves at least `count` requests, replacing each completed one. Returns their number.
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

/// Size of the second-level cache as the runtime detects it, or its default.
pub(crate) fn second_level() -> usize {
    let (say, said) = std::sync::mpsc::channel();
    let mut graph = phalanx::Graph::new();
    let _ = graph.shared("nothing", ());
    let ran = phalanx::Runtime::new().processors(1).signals(false).run(graph, move |start| {
        let control = start.control();
        say.send(control.cache_bytes()).expect("awaited below");
        control.drain();
        Ok(())
    });
    ran.expect("a runtime");
    said.recv().expect("checked above")
}
