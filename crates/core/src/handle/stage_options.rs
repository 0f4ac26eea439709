//! The options of a stage that is being declared.

use std::time::Duration;

use crate::handle::graph::StageOptions;
use crate::stage::limits::{HoldPolicy, Threshold, nanoseconds};

impl StageOptions<'_> {
    /// Each request that is under way at this stage has a `T` of its own beside the operation, such
    /// as a buffer: for the [byte table](crate::Control::bytes), and for the number of operations that the
    /// [cache](crate::Graph::cache_bytes) has room for.
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
        self.objects.push((name, size_of::<T>()));
        self
    }
}

impl StageOptions<'_> {
    /// Waits for a cohort of `count` operations, but no longer than `time` from when the oldest was
    /// queued, and only while the processor has other work. The default is never to wait.
    ///
    /// The time is looked at when the sweep comes by, so a wait may be longer by one cohort of each
    /// other stage. A [threshold](Self::threshold) goes before: a stage that is overdue runs.
    /// `count` above the stage's [`max_cohort`](Self::max_cohort) is that.
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
        self.filling = HoldPolicy { count, time: nanoseconds(time) };
        self
    }
}

impl StageOptions<'_> {
    /// Forces the stage to run once `length` operations are queued at it on a processor, or the
    /// oldest of them has waited for `age` (BatchThreshold and BatchTimer in tr2001 §5.1); either
    /// may be `None`. The operation that is running then finishes its step, the stage runs one
    /// cohort, and the interrupted cohort goes on. For stages that must be fed: those that hand
    /// requests to devices, and those whose answers are waited for.
    ///
    /// What it costs: after *every* operation of the graph's stages each declared threshold is
    /// compared. Where any stage declares an age, the clock is read after every operation too, and
    /// [`now`](crate::now) advances with it.
    ///
    /// Operations sent by other processors count as soon as they have arrived; their age from when
    /// this processor first saw one of them.
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
        assert!(length > 0, "a threshold is of at least one operation");
        self.threshold = Threshold { length, age: age.into().map_or(u64::MAX, nanoseconds) };
        self
    }
}

impl StageOptions<'_> {
    /// The most operations that may be queued at the stage on one processor. An invocation beyond
    /// it is refused with [`CallError::Full`](crate::CallError::Full), which names the stage.
    /// Without it only [`Graph::max_operations`](crate::Graph::max_operations) bounds the queue.
    ///
    /// Operations that wait for something else (I/O, children, time) are not queued and not
    /// counted; when they are re-enabled they are let in whatever the bound. What other processors
    /// have sent waits apart and is bounded apart, by the same number or 1024, whichever is less.
    ///
    /// A producer that must not lose anything asks the stage's handle for room first:
    /// [`has_capacity`](crate::Stage::has_capacity), [`wait_for_capacity`](crate::Stage::wait_for_capacity).
    ///
    /// # Panics
    /// If `count` is zero.
    #[must_use]
    pub fn capacity(mut self, count: usize) -> Self {
        assert!(count > 0, "a stage has room for at least one operation");
        self.capacity = count;
        self
    }
}

impl StageOptions<'_> {
    /// The most operations in a cohort (MaxBatchSize in tr2001 §5.1). Without it there are as many as
    /// the [cache](crate::Graph::cache_bytes) has room for, or as many as the runtime
    /// [finds](crate::Graph::tune_cohorts) good. 64 is good for stages that touch sockets: beyond that their
    /// kernel state leaves the cache again.
    ///
    /// # Panics
    /// If `count` is zero.
    #[must_use]
    pub fn max_cohort(mut self, count: usize) -> Self {
        assert!(count > 0, "a cohort has at least one operation");
        self.max_cohort = Some(count);
        self
    }
}

impl StageOptions<'_> {
    /// Runs a call of this stage inside of the caller when it is first awaited, where it stays on
    /// its processor: for stages so small that no cohort pays. What is not awaited at once (joined,
    /// dispatched, sent by another processor) runs in cohorts as ever, as does what a direct call
    /// leaves suspended. [`run`](crate::SharedStage::run) is the cheapest way to invoke such a stage.
    ///
    /// A stage that [holds](Self::hold) or has work at the [end of a
    /// cohort](crate::CohortStage), and one with a lock that is taken once a cohort (exclusive
    /// stages), always runs in cohorts: for these the option does nothing.
    ///
    /// ```
    /// let mut graph = phalanx_core::Graph::new();
    /// let parse = graph.stage("parse").direct().shared(());
    /// # let _ = parse;
    /// ```
    #[must_use]
    pub fn direct(mut self) -> Self {
        self.direct = true;
        self
    }
}

impl StageOptions<'_> {
    /// Requests begin at this stage: an operation of it is begun as long as those that are on their way
    /// and could run, with what their requests have beside them ([`object`](Self::object)), leave room
    /// for it in half of the [cache](crate::Graph::cache_bytes); or when nothing else could run, or the oldest has
    /// waited for 10 ms.
    ///
    /// An operation of an entry hands its request on to other stages. One that awaits them is begun
    /// anew, as it were, each time that it goes on.
    ///
    /// ```
    /// let mut graph = phalanx_core::Graph::new();
    /// let accept = graph.stage("accept").entry().object::<[u8; 8192]>("request").shared(());
    /// let answer = graph.shared("answer", ());
    /// # let _ = (accept, answer);
    /// ```
    #[must_use]
    pub fn entry(mut self) -> Self {
        self.entry = true;
        self
    }
}
