//! Starts the health checks of servers behind the reverse proxy.

use std::future::pending;
use std::mem::replace;
use std::sync::{Arc, Weak};
use std::time::Duration;

use phalanx::runtime::report;
use phalanx::shutdown::draining;
use phalanx::task::Either;
use phalanx::{SharedStage, select, sleep};

use crate::site::CurrentSite;
use crate::upstream::{Group, check};

/// Time after which checks begin that the operation limit has prevented.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// A group with checks.
struct Checked {
    group: Weak<Group>,
    /// Its first servers, whose checks have begun.
    begun: usize,
}

/// Starts the checks of all servers that have some, as operations of `stage`, and those of each later version of the
/// configuration, until the program drains.
pub(super) async fn check_all(current: CurrentSite, stage: SharedStage<()>) {
    let (mut checked, mut draining) = (Vec::<Checked>::new(), draining());
    let mut has_reported = false;
    loop {
        let site = current.load();
        let generation = site.generation;
        // Groups of unchanged hosts are those of the previous version.
        checked.retain(|checked| checked.group.strong_count() > 0);
        let mut is_complete = true;
        if let Some(blocking) = site.blocking() {
            for group in site.groups().filter(|group| group.rule.health.is_some()) {
                let weak = Arc::downgrade(group);
                let own = checked.iter().position(|checked| checked.group.ptr_eq(&weak));
                let own = own.unwrap_or_else(|| {
                    checked.push(Checked { group: weak.clone(), begun: 0 });
                    checked.len() - 1
                });
                let begun = &mut checked[own].begun;
                while *begun < group.members.len() {
                    let (group, counters) = (weak.clone(), site.upstreams.clone());
                    let (number, resolver) = (*begun, blocking.resolver);
                    if stage.dispatch(move |_| check(group, number, resolver, counters)).is_err() {
                        is_complete = false;
                        break;
                    }
                    *begun += 1;
                }
            }
        }
        drop(site);
        if !is_complete && !replace(&mut has_reported, true) {
            report(
                "too many operations are in progress to begin all health checks; the others begin later",
            );
        }
        let later = async {
            match is_complete {
                true => pending().await,
                false => sleep(RETRY_INTERVAL).await,
            }
        };
        let next = select(later, current.changed(generation));
        if let Either::Left(()) = select(&mut draining, next).await {
            return;
        }
    }
}
