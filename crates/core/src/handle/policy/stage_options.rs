//! Options of a stage that select optional mechanisms.

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use crate::handle::stage_options::StageOptions;
use crate::stage::limits::{HoldPolicy, Threshold, limit_of};

impl StageOptions<'_> {
    /// Delays the stage until `count` operations are queued, but only while the processor has other work, and for at
    /// most `time` after the oldest was queued. Off by default.
    ///
    /// The processor checks the time when its sweep reaches the stage, so the delay may be longer by one cohort of
    /// every other stage. A [threshold](Self::threshold) has priority: an overdue stage runs. A `count` above the
    /// stage's [`max_cohort`](Self::max_cohort) is reduced to that size.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut graph = phalanx_core::Graph::new();
    /// let log = graph.stage("log").hold(64, Duration::from_millis(1)).exclusive(Vec::<u8>::new());
    /// # let _ = log;
    /// ```
    #[must_use]
    pub fn hold(mut self, count: usize, time: Duration) -> Self {
        self.declaration.hold_policy = HoldPolicy { count, time: limit_of(time) };
        self
    }

    /// Runs the stage before its turn once `length` operations are queued at it on a processor, or the oldest of them
    /// has waited for `age` (BatchThreshold and BatchTimer in tr2001 §5.1); either may be `None`. The current operation
    /// finishes its step, the stage runs one cohort, and the preempted cohort continues. Use it for stages that feed
    /// devices, and for stages whose results are urgent.
    ///
    /// Cost: each declared threshold is compared after *every* operation of the graph's stages. If any stage
    /// declares an age, the clock is read after every operation too, and [`now`](crate::now) advances with
    /// it.
    ///
    /// Operations from other processors count from their arrival. Their age is measured from the moment when this
    /// processor first noticed one of them.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut graph = phalanx_core::Graph::new();
    /// let parse = graph.shared("parse", ());
    /// let disk = graph.stage("disk").threshold(32, Duration::from_micros(500)).shared(());
    /// # let _ = (parse, disk);
    /// ```
    ///
    /// # Panics
    /// If `length` is zero.
    #[must_use]
    pub fn threshold(
        mut self,
        length: impl Into<Option<usize>>,
        age: impl Into<Option<Duration>>,
    ) -> Self {
        let length = length.into().unwrap_or(usize::MAX);
        assert!(length > 0, "a threshold's length must be at least one operation");
        self.declaration.threshold =
            Threshold { length, age: age.into().map_or(u64::MAX, limit_of) };
        self
    }

    /// Runs a call of this stage inside its caller when the call is first awaited, if it stays on the caller's
    /// processor. Use it for stages so small that batching them gains nothing. Joined, dispatched, remote and suspended
    /// operations still run in cohorts. [`run`](crate::SharedStage::run) is the cheapest way to invoke such a stage.
    ///
    /// The option has no effect on stages that [hold](Self::hold), that have an
    /// [`end_of_cohort`](Self::end_of_cohort) hook, or that are exclusive: these always run in cohorts.
    ///
    /// ```
    /// let mut graph = phalanx_core::Graph::new();
    /// let parse = graph.stage("parse").direct().shared(());
    /// # let _ = parse;
    /// ```
    #[must_use]
    pub fn direct(mut self) -> Self {
        self.declaration.direct = true;
        self
    }

    /// Marks the stage as an entry, where requests begin, for an [ingress](crate::Graph::ingress) with a budget. An
    /// operation of an entry starts if it fits into half of the [cache](crate::Graph::cache_bytes) together with the
    /// runnable requests in progress and their [objects](Self::object). It also starts if nothing else can run, or if
    /// the entry's oldest operation has waited for 10 ms.
    ///
    /// An operation of an entry should pass its request to other stages and end. If it awaits them instead, it is
    /// subject to the budget again whenever it resumes.
    ///
    /// ```
    /// let mut graph = phalanx_core::Graph::new();
    /// graph.ingress(phalanx_core::Ingress::Budget);
    /// let accept = graph.stage("accept").entry().object::<[u8; 8192]>("request").shared(());
    /// let answer = graph.shared("answer", ());
    /// # let _ = (accept, answer);
    /// ```
    #[must_use]
    pub fn entry(mut self) -> Self {
        self.declaration.entry = true;
        self
    }

    /// Declares that each request in progress at this stage owns a `T` beside its operation, such as a buffer. The
    /// [byte table](crate::Control::bytes) lists it, and the runtime takes it into account when it computes how many
    /// operations fit into the [cache](crate::Graph::cache_bytes).
    ///
    /// ```
    /// struct Head([u8; 1024]);
    ///
    /// let mut graph = phalanx_core::Graph::new();
    /// let parse = graph.stage("parse").object::<Head>("head").shared(());
    /// # let _ = parse;
    /// let control = graph.build(1)[0].control();
    /// assert_eq!(control.bytes().objects[0].bytes, 1024);
    /// ```
    #[must_use]
    pub fn object<T>(mut self, name: &'static str) -> Self {
        self.declaration.objects.push((name, size_of::<T>()));
        self
    }

    /// Runs `hook` on the processor at the end of each cohort of the stage (endOfCohort), for example to submit
    /// requests that the cohort's operations have collected. The hook may dispatch operations, and its time counts as
    /// part of the cohort. A panic in it is reported ([`PanicReport`](crate::PanicReport)) and ends only the hook.
    ///
    /// ```
    /// let mut graph = phalanx_core::Graph::new();
    /// let flush = graph.shared("flush", ());
    /// let write = graph
    ///     .stage("write")
    ///     .end_of_cohort(move || {
    ///         let _ = flush.dispatch(|_| async { /* one for the whole cohort */ });
    ///     })
    ///     .shared(());
    /// # let _ = write;
    /// ```
    #[must_use]
    #[track_caller]
    pub fn end_of_cohort(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.declaration.end_of_cohort = Some((Arc::new(hook), Location::caller()));
        self
    }
}
