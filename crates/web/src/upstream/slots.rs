//! A processor's slots at one server, and its connections.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use phalanx_tls::Wire;

use crate::upstream::group::Group;
use crate::upstream::multiplexed::Connections;

/// The connections to one server.
#[derive(Default)]
pub(super) struct Slots {
    pub(super) in_use: Cell<usize>,
    /// Maximum number of concurrent requests since the last sweep, and between the two sweeps before.
    peaks: Cell<[usize; 2]>,
    /// Tunnels that do not count towards `in_use`.
    pub(super) tunnels: Cell<usize>,
    /// Unused connections, with the time since which they are unused; the latest is last.
    pub(super) idle: RefCell<Vec<(Wire, Duration)>>,
    /// Connections with HTTP/2.
    pub(super) connections: Connections,
}

impl Slots {
    /// The number of unused connections to keep while `in_use` are in use: at most `max_idle`, or as many as the requests
    /// of the last seconds have needed, up to `own`.
    fn max_idle(&self, in_use: usize, (max_idle, own): (usize, usize)) -> usize {
        let [current, last] = self.peaks.get();
        let needed = current.max(last).saturating_sub(in_use);
        if max_idle == 0 { 0 } else { max_idle.max(needed.min(own)) }
    }

    /// Begins the next interval of the peaks.
    pub(super) fn begin_interval(&self) {
        let [current, _] = self.peaks.get();
        self.peaks.set([self.in_use.get(), current]);
    }

    /// Notes that another slot is in use.
    pub(super) fn note_peak(&self) {
        let [current, last] = self.peaks.get();
        self.peaks.set([current.max(self.in_use.get()), last]);
    }

    /// Closes the oldest unused connections to a member of `group` if there are too many while `in_use` are in use.
    pub(super) fn close_surplus(&self, in_use: usize, group: &Group, member: usize) {
        let bounds = (group.rule.max_idle, group.members[member].in_use.own());
        let mut idle = self.idle.borrow_mut();
        let surplus = idle.len().saturating_sub(self.max_idle(in_use, bounds));
        idle.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections that many requests at a time have needed are kept until fewer need them.
    #[test]
    fn peaks_decide_about_unused_connections() {
        let slots = Slots::default();
        assert_eq!([(32, 128), (0, 128)].map(|bounds| slots.max_idle(0, bounds)), [32, 0]);
        slots.in_use.set(100);
        slots.peaks.set([100, 0]);
        assert_eq!(slots.max_idle(100, (32, 128)), 32, "all are in use");
        slots.in_use.set(10);
        let bounds = [(32, 128), (32, 64), (0, 64)];
        assert_eq!(bounds.map(|bounds| slots.max_idle(10, bounds)), [90, 64, 0]);
        slots.begin_interval();
        assert_eq!(slots.max_idle(10, (32, 128)), 90);
        slots.begin_interval();
        assert_eq!(slots.max_idle(10, (32, 128)), 32);
    }
}
