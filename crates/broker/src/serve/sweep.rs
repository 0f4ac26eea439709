//! Removes expired retained messages, even when no retained message is published.

use std::pin::pin;
use std::time::Duration;

use phalanx::shutdown::draining;
use phalanx::task::Either;
use phalanx::{select, sleep};

use crate::requests::{Answer, Item, Routes};

/// Time between two sweeps.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// Pause between the steps of one sweep, in which the router serves others.
const STEP_PAUSE: Duration = Duration::from_millis(10);

/// Sweeps until shutdown.
pub(crate) async fn sweep(routing: Routes) {
    let (mut drained, mut pause) = (pin!(draining()), SWEEP_INTERVAL);
    while let Either::Left(()) = select(sleep(pause), drained.as_mut()).await {
        pause = match routing.call(Item::Sweep).await {
            Ok(Answer::Swept(false)) => STEP_PAUSE,
            // The sweep is complete, or the broker is busy.
            _ => SWEEP_INTERVAL,
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use phalanx::time::now;
    use phalanx::{Graph, sim};
    use phalanx_mqtt::{Property, PropertyBuffer, QoS, Will};

    use super::*;
    use crate::model::message::Message;
    use crate::requests::Publication;
    use crate::{Broker, Config};

    /// More messages than one step removes.
    const COUNT: usize = 3000;

    #[test]
    fn expired_messages_are_removed_without_others() {
        let declare = |graph: &mut Graph| Broker::declare(graph, &Config::new());
        sim::block_on(0, Some(1), declare, |broker| async move {
            let (stages, counters) = (broker.context().stages, broker.context().counters.clone());
            let mut properties = PropertyBuffer::new();
            properties.push(Property::MessageExpiry(1)).unwrap();
            let message = |n: usize| {
                let (topic, qos, properties) = (n.to_string(), QoS::AtMostOnce, properties.get());
                let (topic, payload, retain) = (topic.as_str(), &b"x"[..], true);
                let will = Will { topic, payload, qos, retain, properties };
                Arc::new(Message::of_will(&will).postponed(now()))
            };
            let messages = (0..COUNT).map(message).collect();
            let own = Publication { messages, ..Publication::default() };
            assert!(stages.routing.call(Item::Publish(own)).await.is_ok());
            assert_eq!(counters.retained.get(), COUNT as i64);
            let mut sweeping = pin!(sweep(stages.routing));
            select(sweeping.as_mut(), sleep(2 * SWEEP_INTERVAL)).await;
            assert_eq!(counters.retained.get(), 0);
        });
    }
}
