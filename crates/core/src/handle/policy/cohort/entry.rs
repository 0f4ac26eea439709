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

    /// Takes the reply out, to send it later.
    ///
    /// # Panics
    /// If the reply was sent or taken before.
    pub fn take_reply(&mut self) -> Reply<O> {
        self.reply.take().expect("an item is answered once")
    }
}

/// The items passed to a cohort operation: a slice, in the order of the queue. Items that are left in it when
/// the handler returns are dropped, and their unanswered callers get
/// [`CallError::Unanswered`](crate::CallError::Unanswered).
pub struct Cohort<I, O>(pub(crate) Vec<Entry<I, O>>);

impl<I, O> Cohort<I, O> {
    /// Takes all entries out, each an item and its reply.
    ///
    /// # Panics
    /// On an entry whose reply was sent or taken before.
    pub fn drain(&mut self) -> impl Iterator<Item = (I, Reply<O>)> {
        self.0.drain(..).map(|mut entry| {
            let reply = entry.take_reply();
            (entry.item, reply)
        })
    }
}

impl<I, O> Cohort<I, O> {
    /// All entries, for code that outlives the handler's call.
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
