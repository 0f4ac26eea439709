//! Hold: waiting for a cohort to fill, where a stage asks for it.
//!
//! A stage that holds is passed over by the sweep while fewer than its count are queued and the
//! oldest is younger than its time, and only as long as the processor has something else to run: a
//! turn in which nothing else ran ends by running what was held. So a processor is never idle with
//! held work, never sleeps on it and never spins on it.

use std::time::Duration;

use crate::handle::graph::StageOptions;
use crate::processor::policy::threshold::nanoseconds;
use crate::processor::processor::{LocalStage, Processor};

/// What a stage waits for. A count of zero waits for nothing.
#[derive(Clone, Copy)]
pub(crate) struct Filling {
    count: usize,
    time: u64,
}

impl Filling {
    pub(crate) const NONE: Self = Self { count: 0, time: 0 };

    pub(crate) fn is_some(self) -> bool {
        self.count > 1
    }

    /// Not for more than a cohort can be.
    pub(crate) fn within(self, max_cohort: usize) -> Self {
        Self { count: self.count.min(max_cohort), ..self }
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
        self.filling = Filling { count, time: nanoseconds(time) };
        self
    }
}

/// The stages that hold, a bit each.
pub(crate) fn holding(stages: &[LocalStage]) -> u64 {
    let declared = |(_, stage): &(usize, &LocalStage)| stage.rules.filling.is_some();
    stages.iter().enumerate().filter(declared).fold(0, |set, (stage, _)| set | 1 << stage)
}

impl Processor {
    /// Whether a ready stage is to be passed over for now.
    #[inline]
    pub(crate) fn holds(&self, stage: usize) -> bool {
        self.holding & 1 << stage != 0 && self.waits_to_fill(stage)
    }

    #[cold]
    fn waits_to_fill(&self, stage: usize) -> bool {
        let Filling { count, time } = self.stages[stage].rules.filling;
        let waits = self.queued(stage) < count && self.oldest_wait(stage) < time;
        if waits {
            self.stage_counters(stage as u8).held.add(1);
        }
        waits
    }
}
