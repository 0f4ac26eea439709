//! Starts the health checks of servers behind the reverse proxy.

use std::sync::{Arc, Weak};

use phalanx::shutdown::draining;
use phalanx::task::Either;
use phalanx::{SharedStage, select};

use crate::site::CurrentSite;
use crate::upstream::{Group, check};

/// Starts the checks of all servers that have some, as operations of `stage`, and those of each later version of the
/// configuration, until the program drains.
pub(crate) async fn check_all(current: CurrentSite, stage: SharedStage<()>) {
    let (mut checked, mut draining) = (Vec::<Weak<Group>>::new(), draining());
    loop {
        let site = current.load();
        let generation = site.generation;
        // Groups of unchanged hosts are those of the previous version.
        checked.retain(|group| group.strong_count() > 0);
        if let Some(blocking) = site.blocking() {
            for group in site.groups().filter(|group| group.rule.health.is_some()) {
                let weak = Arc::downgrade(group);
                if checked.iter().any(|other| other.ptr_eq(&weak)) {
                    continue;
                }
                for number in 0..group.members.len() {
                    let (group, counters) = (weak.clone(), site.upstreams.clone());
                    let names = blocking.names;
                    // If the operation limit is reached, requests find out whether the server is up.
                    let _ = stage.dispatch(move |_| check(group, number, names, counters));
                }
                checked.push(weak);
            }
        }
        drop(site);
        if let Either::Left(()) = select(&mut draining, current.changed(generation)).await {
            return;
        }
    }
}
