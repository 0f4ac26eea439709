//! Families of counters and gauges, whose members appear while the program runs.

use std::sync::{Arc, Mutex, MutexGuard};

use super::{Counter, Gauge};

use crate::lock::lock;

/// Maximum number of members of a family. Further values of the label share a member named `other`.
const MAX_MEMBERS: usize = 1024;

/// Counters or gauges with the same name that are distinguished by the value of a label, such as an address. Unlike
/// metrics that are registered one by one, members may be added while the program runs. Clones share the members.
///
/// ```
/// use phalanx::metrics::Family;
/// use phalanx::Runtime;
///
/// let open = Family::gauges("kv_connections", "Current connections.", "listener");
/// let runtime = Runtime::new().register_gauges(&open);
/// open.member("127.0.0.1:6379").add(2);
/// assert_eq!(open.member("127.0.0.1:6379").get(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Family<M> {
    template: M,
    label: &'static str,
    members: Arc<Mutex<Members<M>>>,
}

/// Members with the values of their label.
type Members<M> = Vec<(Arc<str>, M)>;

/// A metric that can be a member of a [`Family`].
pub trait Member: Clone {
    /// A metric at zero with the same name and help, and this label.
    #[doc(hidden)]
    fn labelled(&self, label: &'static str, value: Arc<str>) -> Self;
}

impl Family<Counter> {
    /// A family of counters without members.
    ///
    /// # Panics
    /// Like [`Counter::new`]. Also if the label contains characters other than lowercase letters and underscores.
    pub fn counters(name: &'static str, help: &'static str, label: &'static str) -> Self {
        Self::new(Counter::new(name, help), label)
    }
}

impl Family<Gauge> {
    /// A family of gauges without members.
    ///
    /// # Panics
    /// Like [`counters`](Family::counters).
    pub fn gauges(name: &'static str, help: &'static str, label: &'static str) -> Self {
        Self::new(Gauge::new(name, help), label)
    }
}

impl<M: Member> Family<M> {
    fn new(template: M, label: &'static str) -> Self {
        super::counter::check_label(label);
        Self { template, label, members: Arc::default() }
    }

    /// A metric with the name and the help of all members.
    pub(super) fn template(&self) -> &M {
        &self.template
    }

    /// The member with this value of the label, which is created if necessary. This takes a lock, so store the member
    /// instead of calling this repeatedly.
    pub fn member(&self, value: &str) -> M {
        let mut members = self.lock();
        let find = |value: &str| members.iter().find(|(label, _)| **label == *value);
        let others = find("other");
        let is_full = members.len() - usize::from(others.is_some()) >= MAX_MEMBERS;
        if let Some((_, member)) = find(value).or(others.filter(|_| is_full)) {
            return member.clone();
        }
        let value: Arc<str> = if is_full { "other" } else { value }.into();
        let member = self.template.labelled(self.label, value.clone());
        members.push((value, member.clone()));
        member
    }

    /// Removes the member with this value of the label, if there is one. The shared member `other` is not removed.
    pub fn remove(&self, value: &str) {
        self.lock().retain(|(label, _)| **label != *value);
    }

    /// All members, in the order of their creation.
    pub fn members(&self) -> Vec<M> {
        self.lock().iter().map(|(_, member)| member.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Members<M>> {
        lock(&self.members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_shared_and_bounded() {
        let family = Family::counters("taken", "", "listener");
        family.member("a").add(1);
        family.clone().member("a").add(1);
        assert_eq!((family.member("a").count(), family.member("b").count()), (2, 0));
        (0..2 * MAX_MEMBERS).for_each(|n| family.member(&n.to_string()).add(1));
        let members = family.members();
        assert_eq!(members.len(), MAX_MEMBERS + 1);
        let (name, value) = members.last().unwrap().label().unwrap();
        assert_eq!((name, value), ("listener", "other"));
        assert_eq!(family.member("a").count(), 2, "it stays although the family is full");
        family.remove("a");
        assert_eq!((family.members().len(), family.member("a").count()), (MAX_MEMBERS, 0));
        assert!(std::panic::catch_unwind(|| Family::gauges("a", "", "A")).is_err());
    }
}
