//! Messages that are over, to be used again: so that one that is passed on and not kept calls no allocator.
//!
//! They come home with the answer to whoever has published them, if nobody else has them then; each processor has its
//! own. What is large is not kept, nor is memory used for much less than it has: what a message costs while it waits is
//! within twice its size.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use phalanx_mqtt::Publish;

use crate::message::Message;
use crate::session::key::ClientKey;

/// So many at most, as many as are routed at once and as many again; and bytes of memory that each has.
const POOL_CAP: usize = 2048;
const MAX_POOLED_BYTES: usize = 1024;

thread_local! {
    static POOL: RefCell<Vec<Arc<Message>>> = const { RefCell::new(Vec::new()) };
}

/// What a client has published, as [`Message::of`] makes it.
pub(crate) fn get(
    publish: &Publish<'_>,
    topic: &str,
    session: (ClientKey, u64),
    now: Duration,
) -> Arc<Message> {
    // What is to be kept for long has no more memory than it needs.
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

/// Takes messages back that nobody else has, and forgets the others.
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
