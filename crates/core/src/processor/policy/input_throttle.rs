//! Input throttle: stops reaping I/O while a stage has a backlog larger than its last cohort.
//!
//! Input that is reaped early only waits elsewhere: in a stage's queue, as received bytes that have left the
//! cache again when they are read. In a last in, first out stage some of ten thousand connections would wait
//! ten times as long as others; the kernel keeps them in order. The memory budget (TUX paper, §4.5.2) applies
//! the same idea to graphs that declare the memory of their requests.
//!
//! The throttle is limited to a few turns, since the backlog may be unrelated to the input. It is off where
//! an [admission](crate::Admission) rejects requests: admission measures queue delay, and must see all input
//! to reject it early.

use crate::processor::processor::Processor;

impl Processor {
    /// Whether this turn reaps I/O. Called once a turn.
    #[inline]
    pub(crate) fn accepts_input(&self) -> bool {
        let closed = self.throttles_input();
        self.load.throttle.turn(closed);
        !closed
    }

    /// Whether input is throttled now.
    #[inline]
    pub(crate) fn throttles_input(&self) -> bool {
        self.load.throttle.is_closed(self.stages.ready()) && !self.load.delay.has_admission()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::RefCell;
    use std::future::poll_fn;
    use std::task::Poll;
    use std::time::Duration;

    use super::*;
    use crate::{Admission, Graph, World};

    /// Records the calls that a turn makes.
    #[derive(Default)]
    struct Outside(RefCell<String>);

    impl World for Outside {
        fn now(&self) -> u64 {
            0
        }
        fn reap(&self) -> bool {
            self.0.borrow_mut().push('r');
            false
        }
        fn submit(&self) {
            self.0.borrow_mut().push('s');
        }
        fn submit_backlogged(&self) {
            self.0.borrow_mut().push('h');
        }
        fn park(&self, _: Option<u64>) {}
    }

    /// The calls of `turns` turns, each after a bar, when `operations` were dispatched to a stage with
    /// cohorts of four.
    fn turns(turns: usize, operations: usize, prepare: impl FnOnce(&Processor)) -> String {
        turns_holding(1, turns, operations, prepare)
    }

    /// Like `turns`, with a stage that holds until `held` operations are queued.
    fn turns_holding(
        held: usize,
        turns: usize,
        operations: usize,
        prepare: impl FnOnce(&Processor),
    ) -> String {
        let mut graph = Graph::new();
        let stage =
            graph.stage("stage").max_cohort(4).hold(held, Duration::from_secs(1)).shared(());
        let processor = graph.build(1).remove(0).build(Box::new(|| ()));
        let outside = Outside::default();
        processor.enter(|| {
            prepare(&processor);
            (0..operations).for_each(|_| stage.dispatch(|_| async {}).unwrap());
            (0..turns).for_each(|_| {
                outside.0.borrow_mut().push('|');
                processor.turn(&outside);
            });
        });
        outside.0.take()
    }

    #[test]
    fn input_is_reaped_if_a_cohort_takes_all() {
        assert_eq!(turns(2, 4, |_| ()), "|rss|rss");
        // The backward sweep runs a cohort, too.
        assert_eq!(turns(2, 8, |_| ()), "|rhs|rss");
    }

    #[test]
    fn input_is_throttled_for_a_few_turns_at_most() {
        assert_eq!(turns(3, 16, |_| ()), "|rhh|hs|rss");
        // The fifth turn runs the input of the fourth.
        assert_eq!(turns(6, 40, |_| ()), "|rhh|hh|hh|ss|rhs|rss");
    }

    #[test]
    fn a_holding_stage_does_not_throttle() {
        assert_eq!(turns_holding(4, 2, 10, |_| ()), "|rhs|rss");
    }

    #[test]
    fn a_yielding_operation_does_not_throttle() {
        let mut graph = Graph::new();
        let stage = graph.shared("stage", ());
        let processor = graph.build(1).remove(0).build(Box::new(|| ()));
        let outside = Outside::default();
        processor.enter(|| {
            let mut left = 3;
            let yields = poll_fn(move |context| {
                left -= 1;
                context.waker().wake_by_ref();
                if left == 0 { Poll::Ready(()) } else { Poll::Pending }
            });
            stage.dispatch(move |_| yields).unwrap();
            for _ in 0..3 {
                processor.turn(&outside);
            }
        });
        assert_eq!(outside.0.take(), "rss".repeat(3));
        assert_eq!(processor.live(), 0);
    }

    #[test]
    fn a_throttled_turn_measures_no_external_delay() {
        let processor = Graph::new().build(1).remove(0).build(Box::new(|| ()));
        let turn = |at: u64, received| {
            let (congestion, stages) = (&processor.load.delay, &processor.stages);
            congestion.turn(at * 1_000_000, received, stages, &Outside::default());
            (congestion.interval(), congestion.wait())
        };
        for (at, received) in [(11, Some(true)), (19, Some(true)), (22, None), (33, None)] {
            assert_eq!(turn(at, received), (0, 0));
        }
        // Measured since the previous turn.
        assert_eq!(turn(40, Some(true)), (1, 0));
        assert_eq!(turn(48, Some(true)), (1, 0));
        assert_eq!(turn(55, None), (1, 0));
        assert_eq!(turn(61, Some(true)), (2, 6_000_000));
    }

    #[test]
    fn admission_disables_the_throttle() {
        let admits = |_: &Processor| drop(Admission::new());
        assert_eq!(turns(3, 16, admits), "|rss|rss|rss");
        let endless = |_: &Processor| drop(Admission::with_target(Duration::MAX));
        assert_eq!(turns(3, 16, endless), "|rhh|hs|rss", "it never refuses");
    }
}
