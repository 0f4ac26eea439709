//! The items passed to a cohort operation.

use std::ops::{Deref, DerefMut};

use crate::future::reply::Reply;

/// One item of a [`Cohort`].
pub struct Entry<I, O> {
    /// The item that the caller passed.
    pub item: I,
    pub(crate) reply: Option<Reply<O>>,
}

impl<I, O> Entry<I, O> {
    /// Replies to the caller.
    ///
    /// # Panics
    /// If the reply was sent or taken before.
    pub fn reply(&mut self, value: O) {
        self.take_reply().send(value);
    }

    /// Takes the reply out of the entry, to send it later.
    ///
    /// # Panics
    /// If the reply was sent or taken before.
    pub fn take_reply(&mut self) -> Reply<O> {
        self.reply.take().expect("the reply of an item was already taken or sent")
    }
}

/// The items passed to a cohort operation, as a slice in queue order. Items that remain when the handler returns are
/// dropped. If they were not answered, their calls fail with
/// [`CallError::ReplyDropped`](crate::CallError::ReplyDropped).
pub struct Cohort<I, O>(pub(crate) Vec<Entry<I, O>>);

impl<I, O> Cohort<I, O> {
    /// Removes all entries, each as an item and its reply.
    ///
    /// # Panics
    /// If the iterator reaches an entry whose reply was sent or taken before.
    pub fn drain(&mut self) -> impl Iterator<Item = (I, Reply<O>)> {
        self.0.drain(..).map(|mut entry| {
            let reply = entry.take_reply();
            (entry.item, reply)
        })
    }
}

impl<I, O> Cohort<I, O> {
    /// Takes all entries, for code that outlives the call of the handler.
    pub(crate) fn take_all(&mut self) -> Self {
        Self(std::mem::take(&mut self.0))
    }
}

impl<I, O> Deref for Cohort<I, O> {
    type Target = [Entry<I, O>];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<I, O> DerefMut for Cohort<I, O> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
