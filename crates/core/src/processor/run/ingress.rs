//! Submission of I/O, and the [throttle](crate::control::ingress) of input.
//!
//! Reaping input early does not serve it sooner: it waits in a stage's queue instead of the kernel, and the received
//! bytes leave the cache before they are read. In a last-in, first-out stage, some of ten thousand connections would
//! also wait ten times as long as others, whereas the kernel keeps them in order. The memory budget (TUX paper, §4.5.2)
//! applies the same idea to graphs that declare the memory of their requests. The throttle lasts for only a few turns,
//! because the backlog may be unrelated to the input.

use crate::processor::processor::Processor;
use crate::world::World;

impl Processor {
    /// Submits I/O. While input is throttled, the world may leave new input in the kernel.
    #[inline]
    pub(crate) fn submit(&self, world: &impl World) {
        if self.load.ingress.is_closed(self.stages.ready()) {
            world.submit_backlogged();
        } else {
            world.submit();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::RefCell;
    use std::future::poll_fn;
    use std::task::Poll;
    use std::time::Duration;

    use crate::{Graph, Ingress, World};

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
    fn turns(turns: usize, operations: usize, ingress: Ingress) -> String {
        turns_holding(1, turns, operations, ingress)
    }

    /// Like `turns`, with a stage that holds until `held` operations are queued.
    fn turns_holding(held: usize, turns: usize, operations: usize, ingress: Ingress) -> String {
        let mut graph = Graph::new();
        graph.ingress(ingress);
        let stage = graph.stage("stage").entry().max_cohort(4);
        let stage = stage.hold(held, Duration::from_secs(1)).shared(());
        let processor = graph.build(1).remove(0).build(Box::new(|| ()));
        let outside = Outside::default();
        processor.enter(|| {
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
        assert_eq!(turns(2, 4, Ingress::Throttle), "|rss|rss");
        // The backward sweep runs a cohort, too.
        assert_eq!(turns(2, 8, Ingress::Throttle), "|rhs|rss");
    }

    #[test]
    fn input_is_throttled_for_a_few_turns_at_most() {
        assert_eq!(turns(3, 16, Ingress::Throttle), "|rhh|hs|rss");
        // The fifth turn runs the input of the fourth.
        assert_eq!(turns(6, 40, Ingress::Throttle), "|rhh|hh|hh|ss|rhs|rss");
    }

    #[test]
    fn a_holding_stage_does_not_throttle() {
        assert_eq!(turns_holding(4, 2, 10, Ingress::Throttle), "|rhs|rss");
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
    fn any_other_ingress_takes_all_input() {
        let admit = Ingress::Admit { max_queue_delay: Ingress::DEFAULT_MAX_QUEUE_DELAY };
        for ingress in [Ingress::Open, admit, Ingress::Budget, Ingress::BudgetEveryStage] {
            assert_eq!(turns(3, 16, ingress), "|rss|rss|rss", "{ingress:?}");
        }
    }

    #[test]
    #[should_panic(expected = "declare one with StageOptions::entry")]
    fn a_budget_needs_an_entry() {
        let mut graph = Graph::new();
        graph.ingress(Ingress::Budget);
        graph.shared("stage", ());
        graph.build(1);
    }
}
