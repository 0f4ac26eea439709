//! A pool of messages per processor, so that forwarding a message does not allocate.
//!
//! When the publishing connection acknowledges a message, the message returns to the pool if nothing else references it.
//! Large messages are freed, and a buffer is not reused for a much smaller message, so a queued message takes at most
//! twice its size.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use phalanx_mqtt::Publish;

use crate::model::client_key::ClientKey;
use crate::model::message::Message;

/// Maximum number of messages in the pool, which is two maximum batches, and maximum buffer bytes of each.
const POOL_CAP: usize = 2048;
const MAX_POOLED_BYTES: usize = 1024;

thread_local! {
    static POOL: RefCell<Vec<Arc<Message>>> = const { RefCell::new(Vec::new()) };
}

/// A new message, as by [`Message::of`].
pub(crate) fn get(
    publish: &Publish<'_>,
    topic: &str,
    session: (ClientKey, u64),
    now: Duration,
) -> Arc<Message> {
    // A retained message is stored for a long time, so it gets buffers of its exact size.
    if !publish.retain
        && let Some(mut spare) = POOL.with_borrow_mut(Vec::pop)
        && let Some(own) = Arc::get_mut(&mut spare)
        && own.fits(publish, topic)
    {
        own.fill(publish, topic, session, now);
        return spare;
    }
    Arc::new(Message::of(publish, topic, session, now))
}

/// Returns messages without other references to the pool, and drops the others.
pub(crate) fn recycle(messages: &mut Vec<Arc<Message>>) {
    POOL.with_borrow_mut(|spare| {
        for message in messages.drain(..) {
            if spare.len() < POOL_CAP
                && Arc::strong_count(&message) == 1
                && message.memory() <= MAX_POOLED_BYTES
            {
                spare.push(message);
            }
        }
    });
}
