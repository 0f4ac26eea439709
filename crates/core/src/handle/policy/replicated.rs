//! Values that one processor publishes and every processor reads without a crossing (a call to another processor).
//!
//! The protocol between owner and readers is described in [`crate::processor::policy::replication::holders`].

use std::convert::Infallible;
use std::marker::PhantomData;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use crate::handle::policy::custom::Policy;
use crate::handle::stage::Stage;
use crate::handle::stage_options::StageOptions;
use crate::processor;
use crate::processor::policy::replication::holders::Holders;
use crate::processor::policy::replication::replicas::{Origin, Replica, Replicas};
use crate::processor::processor::Processor;

/// The policy of values that are read on every processor and rarely replaced; see [`ReplicatedStage`].
pub struct Replicated<V> {
    entries: usize,
    value: PhantomData<fn(V) -> V>,
}

impl<V: Send + Sync + 'static> Policy for Replicated<V> {
    /// No operation can be invoked on the stage.
    type Key = Infallible;
    type Local = Replicas<V>;
    type Access = Infallible;

    fn local(&self, processor: usize, _processors: usize) -> Replicas<V> {
        Replicas::new(self.entries, processor)
    }

    fn access(_: &Rc<Replicas<V>>, key: Infallible) -> Infallible {
        key
    }
}

/// A table of values by key, with replicas on each processor. An owner publishes a value, and readers take replicas of
/// it.
///
/// The owner is any state that keeps the [`Published`] value, usually a partition of another stage. It decides which
/// values exist and for how long. A reader that finds no replica invokes an operation on the owner, which returns an
/// [`Offer`], and [keeps](Self::keep) the offer. All later reads on its processor find the replica. They involve no
/// other processor, take no lock, and write no cache line that another processor writes.
///
/// Dropping the `Published` value *revokes* it. A value cannot be changed in any other way, except through atomics
/// inside it.
///
/// - **Consistency.** Once `drop` has returned, [`get`](Self::get) does not find the value on the owner's processor,
///   nor on any processor that has received a message sent after the drop, such as the result of the operation that
///   replaced the value. Other processors stop finding it as soon as they see the store. So no reader sees the old
///   value after the new one. A [`Replica`] obtained earlier stays valid and unchanged.
/// - **Memory of values.** A processor drops its replica of a revoked value when it next receives messages, that is,
///   after its current cohort; a parked processor is woken for this. The value itself is freed when operations have
///   dropped the last `Replica` and `Offer` of it.
/// - **Memory of replicas.** Each processor has at most as many replicas as the stage declares, rounded up to a
///   multiple of eight. When the table is full, a new replica evicts one that was not read recently.
///   [`StageView::replica_bytes`](crate::StageView::replica_bytes) counts the bytes.
/// - **Moving.** `Published` is `Send`: a partition that moves takes its values along, and the replicas stay valid.
/// - **Panics and ends.** A reader's panic leaves the table unchanged. A state that is dropped or rebuilt after a panic
///   revokes its values. A processor that ends drops its replicas. A value that is dropped outside the program's
///   processors is revoked, but its replicas stay in memory until they are evicted.
///
/// ```
/// use phalanx_core::{Graph, Offer, PartitionedStage, Published, ReplicatedStage};
/// use std::collections::HashMap;
///
/// type Users = HashMap<u64, Published<String>>;
///
/// async fn name(users: PartitionedStage<Users>, names: ReplicatedStage<String>, id: u64) -> usize {
///     if let Some(name) = names.get(id, |_| true) {
///         return name.len(); // on any processor, without a crossing
///     }
///     let call = users.call(id, move |users| async move {
///         let make = || names.publish(id, format!("user {id}"));
///         users.with(|users| users.entry(id).or_insert_with(make).offer())
///     });
///     let offer: Offer<String> = call.await.unwrap();
///     names.keep(offer).len()
/// }
///
/// let mut graph = Graph::new();
/// let names = graph.stage("names").replicated::<String>(1024);
/// let users = graph.partitioned("users", |_partition| Users::new());
/// let main = graph.shared("main", ());
/// # let processors: Vec<_> =
/// #     graph.build(2).into_iter().map(|builder| builder.build(Box::new(|| ()))).collect();
/// # let turns = || for _ in 0..20 { processors.iter().for_each(|p| { p.turn(&phalanx_core::IdleWorld); }) };
/// # for processor in &processors {
/// #     processor.enter(|| main.dispatch(move |_| async move {
/// #         assert_eq!(name(users, names, 7).await, 6);
/// #     }).unwrap());
/// # }
/// # turns();
/// # processors[0].enter(|| main.dispatch(move |_| async move {
/// // Revoked: no processor finds it any more.
/// users.call(7, |users| async move { users.with(|users| users.remove(&7)); }).await.unwrap();
/// assert!(names.get(7, |_| true).is_none());
/// # }).unwrap());
/// # turns();
/// # assert!(processors.iter().all(|p| p.enter(|| names.get(7, |_| true).is_none())));
/// ```
///
/// A replica cannot leave its processor, because its reference count is not atomic. Send an offer instead:
///
/// ```compile_fail
/// fn leaves_its_thread(replica: phalanx_core::Replica<u32>) {
///     std::thread::spawn(move || *replica);
/// }
/// ```
///
/// A published value has one owner, which alone revokes it:
///
/// ```compile_fail
/// fn twice(value: &phalanx_core::Published<u32>) -> phalanx_core::Published<u32> {
///     value.clone()
/// }
/// ```
pub type ReplicatedStage<V> = Stage<Replicated<V>>;

impl<V: Send + Sync + 'static> Stage<Replicated<V>> {
    /// Publishes a value under a key, so that it can be offered to readers. Several values with the same key may exist
    /// at the same time, but a processor keeps a replica of only the last one it stored.
    ///
    /// # Panics
    /// If called outside a processor of the program.
    pub fn publish(&self, key: u64, value: V) -> Published<V> {
        let holders = processor::current(|p| {
            p.check(self.key());
            Holders::new(p.processors())
        });
        Published { stage: *self, origin: Arc::new(Origin { holders, key, value }) }
    }

    /// This processor's replica of the value with this key, if there is one, the value was not revoked, and `is`
    /// returns true for it. Each replica found counts as an operation of the stage.
    ///
    /// # Panics
    /// If called outside a processor of the program. A panic of `is` propagates.
    #[inline]
    #[track_caller]
    pub fn get(&self, key: u64, is: impl FnOnce(&V) -> bool) -> Option<Replica<V>> {
        processor::current(|p| {
            let replica = p.part(self).local().get(key).filter(|value| is(value))?;
            p.count_inline(self.key().stage());
            Some(replica)
        })
    }

    /// Stores an offered value among this processor's replicas. A value that has been revoked in the meantime is
    /// returned but not stored.
    ///
    /// # Panics
    /// If called outside a processor of the program.
    #[track_caller]
    pub fn keep(&self, offer: Offer<V>) -> Replica<V> {
        processor::current(|p| {
            let replica = p.part(self).local().insert(offer.0);
            self.count(p);
            replica
        })
    }

    /// Drops this processor's replica of a revoked value.
    fn remove(&self, processor: &Processor, origin: &Arc<Origin<V>>) {
        processor.part(self).local().remove(origin);
        self.count(processor);
    }

    fn count(&self, processor: &Processor) {
        let bytes = processor.part(self).local().bytes();
        let counters = &processor.observe.counters.stages[usize::from(self.key().stage())];
        counters.replica_bytes.set(bytes as u64);
    }
}

/// A published value, held by its owner. Dropping it revokes the value: see [`ReplicatedStage`].
pub struct Published<V: Send + Sync + 'static> {
    stage: ReplicatedStage<V>,
    origin: Arc<Origin<V>>,
}

impl<V: Send + Sync + 'static> Published<V> {
    /// A reference for a reader on any processor.
    pub fn offer(&self) -> Offer<V> {
        Offer(self.origin.clone())
    }

    /// Whether `offer` refers to this value.
    pub fn is(&self, offer: &Offer<V>) -> bool {
        Arc::ptr_eq(&self.origin, &offer.0)
    }
}

impl<V: Send + Sync + 'static> Deref for Published<V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.origin.value
    }
}

impl<V: Send + Sync + 'static> Drop for Published<V> {
    fn drop(&mut self) {
        let holders = self.origin.holders.revoke();
        if holders.is_empty() {
            return;
        }
        let stage = self.stage;
        processor::try_current(|p| {
            if stage.key().among(p.first_key).is_none() {
                return;
            }
            for holder in holders {
                let origin = self.origin.clone();
                if holder == p.index() {
                    stage.remove(p, &origin);
                } else {
                    p.command(holder, move |holder| stage.remove(holder, &origin));
                }
            }
        });
    }
}

impl<V> Replica<V> {
    /// A reference that may leave this processor.
    pub fn offer(&self) -> Offer<V> {
        Offer(self.origin().clone())
    }
}

/// A reference to a published value that can be sent to a reader on any processor.
pub struct Offer<V>(Arc<Origin<V>>);

impl<V> Offer<V> {
    /// Converts the offer into a replica without storing it in this processor's table, for a reader that keeps replicas
    /// itself.
    pub fn into_replica(self) -> Replica<V> {
        Replica::new(self.0)
    }
}

impl<V> Deref for Offer<V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.0.value
    }
}

impl<V> Clone for Offer<V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl StageOptions<'_> {
    /// A table of values that every processor reads without a crossing; see [`ReplicatedStage`]. Each processor has at
    /// most `entries` replicas, rounded up to a multiple of eight, at about 50 bytes each. It allocates the table when
    /// it stores the first one.
    ///
    /// # Panics
    /// If `entries` is zero.
    pub fn replicated<V: Send + Sync + 'static>(self, entries: usize) -> ReplicatedStage<V> {
        assert!(entries > 0, "a replicated stage needs at least one entry");
        self.policy(Replicated { entries, value: PhantomData })
    }
}
