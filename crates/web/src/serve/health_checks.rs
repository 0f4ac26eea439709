//! Starts the health checks of servers behind the reverse proxy.

use std::future::pending;
use std::mem::replace;
use std::sync::{Arc, Weak};
use std::time::Duration;

use phalanx::runtime::report;
use phalanx::shutdown::draining;
use phalanx::task::Either;
use phalanx::{Session, SharedStage, select, sleep};

use crate::site::CurrentSite;
use crate::upstream::{Group, check};

/// Time after which to start checks again that the operation limit has rejected.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// A group with checks. Dropping it ends them.
struct CheckedGroup {
    group: Weak<Group>,
    /// The checks.
    session: Session,
    /// Number of servers whose checks have begun, in order.
    started: usize,
}

impl CheckedGroup {
    fn new(group: Weak<Group>) -> Self {
        Self { group, session: Session::new(), started: 0 }
    }

    fn is_of(&self, group: &Arc<Group>) -> bool {
        std::ptr::eq(self.group.as_ptr(), &**group)
    }
}

impl Drop for CheckedGroup {
    fn drop(&mut self) {
        // Their resources are released in the background.
        drop(self.session.end());
    }
}

/// Starts the health checks of the current and of each later version of the configuration, as operations of `stage`,
/// until the program drains.
pub(super) async fn check_all(current: CurrentSite, stage: SharedStage<()>) {
    let (mut checked, mut draining) = (Vec::<CheckedGroup>::new(), draining());
    let mut has_reported = false;
    loop {
        let site = current.load();
        let generation = site.generation;
        // Groups of unchanged hosts are those of the previous version. The checks of the others end, although requests in
        // progress may hold their groups for hours.
        checked.retain(|checked| site.groups().any(|group| checked.is_of(group)));
        let mut is_complete = true;
        if let Some(blocking) = site.blocking() {
            for group in site.groups().filter(|group| group.rule.health.is_some()) {
                let own = checked.iter().position(|checked| checked.is_of(group));
                let own = own.unwrap_or_else(|| {
                    checked.push(CheckedGroup::new(Arc::downgrade(group)));
                    checked.len() - 1
                });
                let CheckedGroup { group: weak, session, started } = &mut checked[own];
                while *started < group.members.len() {
                    let (group, counters) = (weak.clone(), site.upstreams.clone());
                    let (number, resolver) = (*started, blocking.resolver);
                    let begin =
                        || stage.dispatch(move |_| check(group, number, resolver, counters));
                    if session.scope(begin).is_err() {
                        is_complete = false;
                        break;
                    }
                    *started += 1;
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
