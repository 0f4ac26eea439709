//! The topic that shows the state of a bridge at this broker. It has the name that mosquitto uses.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use phalanx::shutdown::{draining, is_draining};
use phalanx::sync::Notify;
use phalanx::{select, sleep};

use crate::model::message::Message;
use crate::requests::{Item, Routes};

/// Time between attempts to publish a state while the broker is busy.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The state of a bridge, which the topic shows.
pub(super) struct StateTopic {
    topic: String,
    routing: Routes,
    /// `None` until the session at this broker exists.
    state: Cell<Option<&'static str>>,
    is_closed: Cell<bool>,
    changed: Notify,
}

impl StateTopic {
    pub(super) fn new(bridge: &str, routing: Routes) -> Self {
        Self {
            topic: format!("$SYS/broker/connection/{bridge}/state"),
            routing,
            state: Cell::new(None),
            is_closed: Cell::new(false),
            changed: Notify::default(),
        }
    }

    /// Sets the state that [`publish`](Self::publish) publishes.
    pub(super) fn set(&self, is_connected: bool) {
        self.state.set(Some(if is_connected { "1" } else { "0" }));
        self.changed.notify();
    }

    /// Makes the current state final: [`publish`](Self::publish) ends once the topic shows it.
    pub(super) fn close(&self) {
        self.is_closed.set(true);
        self.changed.notify();
    }

    /// Publishes each change. While the broker is busy, publishing is retried; a state that has changed again by then is
    /// skipped.
    pub(super) async fn publish(&self) {
        let mut shown = None;
        loop {
            let state = self.state.get();
            if let Some(text) = state.filter(|_| state != shown) {
                let message = Arc::new(Message::system(&self.topic, text.to_owned()));
                // One at a time, so that states arrive in order.
                if self.routing.call(Item::System(vec![message])).await.is_ok() {
                    shown = state;
                } else if is_draining() {
                    // The topic is not stored, so it ends with the program.
                    return;
                } else {
                    select(sleep(RETRY_INTERVAL), draining()).await;
                }
            } else if self.is_closed.get() {
                return;
            } else {
                self.changed.notified().await;
            }
        }
    }
}
