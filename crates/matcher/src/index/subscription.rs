//! The numbers of subscriptions.

/// The number of a subscription in its [`Index`](crate::Index).
///
/// A number is reused only after its subscription was removed and all [`Snapshot`](crate::Snapshot)s in which it
/// could match were dropped. Use the numbers of an event's matches before you drop the snapshot that returned them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subscription(pub(crate) u32);

impl Subscription {
    /// The number; numbers start at 0 and have no gaps.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
