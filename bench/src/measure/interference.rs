//! Use of the measured cores by other processes during a slice.

use std::io;
use std::time::Instant;

use crate::system::cores::Cores;
use crate::system::procfs;

/// Maximum share of a core that other processes may use in an undisturbed slice.
pub(crate) const MAX_FOREIGN_SHARE: f64 = 0.04;

/// Readings of the cores, our processes and the clock at one moment, in seconds.
pub(crate) struct CpuTimes {
    taken: Instant,
    server_cores: f64,
    load_cores: f64,
    servers: f64,
    own: f64,
}

impl CpuTimes {
    /// `servers` are all our processes on the servers' cores.
    pub(crate) fn take(cores: &Cores, servers: &[u32]) -> io::Result<Self> {
        Self::take_beside(cores, servers, &[])
    }

    /// Like [`take`](Self::take), if also `others` of our processes run on the load's cores.
    pub(crate) fn take_beside(cores: &Cores, servers: &[u32], others: &[u32]) -> io::Result<Self> {
        Ok(Self {
            taken: Instant::now(),
            server_cores: procfs::busy_time(&cores.server)?,
            load_cores: procfs::busy_time(&cores.load)?,
            servers: procfs::run_time(servers)?,
            own: procfs::own_time()? + procfs::run_time(others)?,
        })
    }

    /// The share of a core that other processes used between `self` and `later`: the larger one of the servers'
    /// and the load's cores.
    pub(crate) fn foreign_until(&self, later: &Self, cores: &Cores) -> f64 {
        let seconds = (later.taken - self.taken).as_secs_f64().max(1e-3);
        let (servers, own) = (later.servers - self.servers, later.own - self.own);
        let on_servers = later.server_cores - self.server_cores - servers;
        let on_load = later.load_cores - self.load_cores - own;
        let foreign = match cores.are_shared() {
            true => on_servers - own,
            false => on_servers.max(on_load),
        };
        foreign.max(0.0) / seconds
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_of_other_processes_is_foreign() {
        let taken = Instant::now();
        let before = CpuTimes { taken, server_cores: 5.0, load_cores: 7.0, servers: 1.0, own: 2.0 };
        let later = |server_cores, load_cores| CpuTimes {
            taken: taken + Duration::from_secs(2),
            server_cores,
            load_cores,
            servers: 2.0,
            own: 3.5,
        };
        let two = Cores { server: vec![0], load: vec![1] };
        let one = Cores { server: vec![0], load: vec![0] };
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        near(before.foreign_until(&later(6.5, 8.5), &two), 0.25);
        near(before.foreign_until(&later(6.0, 8.8), &two), 0.15);
        near(before.foreign_until(&later(7.7, 9.7), &one), 0.1);
        near(before.foreign_until(&later(5.0, 7.0), &two), 0.0);
    }
}
