//! Starts and stops the bridges of a processor, as configured.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::rc::Rc;

use phalanx::runtime::report;
use phalanx::select;
use phalanx::shutdown::draining;
use phalanx::task::Either;
use phalanx_mqtt::Reason;

use crate::access::BRIDGE_CLIENTS;
use crate::bridge::supervisor::{Handle, supervise};
use crate::config::Bridge;
use crate::context::Context;
use crate::limits::settings::SharedSettings;

/// The bridges of a processor.
#[derive(Default)]
struct RunningBridges {
    /// Running bridges, with their configuration.
    bridges: BTreeMap<String, (Bridge, Rc<Handle>)>,
    /// Removed bridges that may not have ended yet.
    removed: BTreeMap<String, Rc<Handle>>,
}

impl RunningBridges {
    /// Stops the bridges that are not `wanted`.
    fn stop_others(&mut self, wanted: &[&Bridge]) {
        self.removed.retain(|_, handle| !handle.is_done());
        let removed = &mut self.removed;
        self.bridges.retain(|name, (_, handle)| {
            let is_wanted = wanted.iter().any(|bridge| bridge.name == *name);
            if !is_wanted {
                handle.stop(true);
                removed.insert(name.clone(), handle.clone());
            }
            is_wanted
        });
    }

    /// Stops the earlier bridge with this name, and returns it, because the new one has to wait for its end.
    fn stop_replaced(&mut self, name: &str) -> Option<Rc<Handle>> {
        if let Some((_, handle)) = self.bridges.get(name) {
            handle.stop(false);
            return Some(handle.clone());
        }
        self.removed.remove(name)
    }
}

/// Runs the bridges of `processor` until shutdown. Each bridge belongs to one processor. After a reload, the first
/// processor also fetches the keys that logins need.
pub(crate) async fn manage(context: Context, settings: SharedSettings, processor: usize) {
    end_removed(&context, &settings, processor).await;
    let (mut running, mut drained) = (RunningBridges::default(), pin!(draining()));
    loop {
        let changed = context.bridges.changed(processor);
        apply(&context, &settings, processor, &mut running);
        if let Either::Right(()) = select(changed, drained.as_mut()).await {
            return;
        }
        if processor == 0 {
            context.fetch();
        }
    }
}

/// Starts new bridges, stops removed ones, and replaces changed ones.
fn apply(
    context: &Context,
    settings: &SharedSettings,
    processor: usize,
    running: &mut RunningBridges,
) {
    let config = settings.load().config.clone();
    let is_own = |bridge: &&Bridge| processor_of(&bridge.name, config.runtime.workers) == processor;
    let wanted: Vec<_> = config.bridges.iter().filter(is_own).collect();
    running.stop_others(&wanted);
    for bridge in wanted {
        if running.bridges.get(&bridge.name).is_some_and(|(old, _)| old == bridge) {
            continue;
        }
        let earlier = running.stop_replaced(&bridge.name);
        let handle = Rc::new(Handle::default());
        let (own, settings, of_bridge) = (context.clone(), settings.clone(), bridge.clone());
        let handles = (handle.clone(), earlier);
        let started =
            context.stages.control.dispatch(move |_| supervise(own, settings, of_bridge, handles));
        match started {
            Ok(()) => drop(running.bridges.insert(bridge.name.clone(), (bridge.clone(), handle))),
            Err(error) => {
                report(format_args!(
                    "bridge {}: cannot start: {error}; reload the configuration",
                    bridge.name
                ));
                running.bridges.remove(&bridge.name);
            }
        }
    }
}

/// Ends the sessions of bridges that were removed from the configuration while the broker was stopped.
async fn end_removed(context: &Context, settings: &SharedSettings, partition: usize) {
    let stages = context.stages;
    let clients = stages.sessions.clients_with(partition, BRIDGE_CLIENTS).await;
    let config = settings.load().config.clone();
    for client in clients.unwrap_or_default() {
        let name = client.strip_prefix(BRIDGE_CLIENTS).unwrap_or_default();
        if config.bridges.iter().all(|bridge| bridge.name != name) {
            // If the broker is busy, the session stays until the next start.
            let reason = Reason::ADMINISTRATIVE_ACTION;
            let _ = stages.sessions.end_session(client.to_string(), reason, stages.routing).await;
        }
    }
}

/// The processor that runs the bridge with this name.
fn processor_of(name: &str, processors: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    (hasher.finish() % processors.max(1) as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bridge_that_is_added_again_waits_for_the_removed_one() {
        let bridge = Bridge { name: "b".into(), ..Bridge::default() };
        let (mut running, handle) = (RunningBridges::default(), Rc::new(Handle::default()));
        running.bridges.insert("b".into(), (bridge.clone(), handle.clone()));
        running.stop_others(&[&bridge]);
        assert!(running.removed.is_empty());
        running.stop_others(&[]);
        running.stop_others(&[&bridge]);
        assert!(running.stop_replaced("b").is_some_and(|earlier| Rc::ptr_eq(&earlier, &handle)));
        assert!(running.stop_replaced("b").is_none());
    }
}
