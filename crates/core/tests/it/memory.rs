//! Memory of operations and of their requests' objects.

use std::cell::Cell;
use std::rc::Rc;

use crate::common::{Bench, settle, single_processor};
use phalanx_core::{Graph, Pooled, Processor, Region};

fn figures(processor: &Processor) -> (u64, u64, u64) {
    let view = processor.control().processor(0);
    (view.pooled_bytes, view.pooled_objects, view.overflow_bytes)
}

/// Turns the processor until the gauges have been published.
fn turns(processor: &Processor, world: &Bench) {
    (0..256).for_each(|_| _ = processor.turn(world));
}

#[test]
fn objects_are_reused_last_freed_first_and_go_with_their_operation() {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let (processor, world) = (single_processor(graph), Bench::default());
    let places = Rc::new(Cell::new((0, 0)));
    for _ in 0..2 {
        let (before, places, last) = (places.get(), places.clone(), places.clone());
        settle(&processor, &world, || {
            stage
                .dispatch(move |_| async move {
                    let (first, second) = (Pooled::new([1u8; 1000]), Pooled::new([2u8; 900]));
                    let place = |of: &[u8]| of.as_ptr().addr();
                    places.set((place(&*first), place(&*second)));
                    phalanx_core::yield_now().await;
                    assert_eq!((first[999], second[899]), (1, 2));
                })
                .unwrap();
        });
        let (one, two) = last.get();
        assert!((one.abs_diff(two) / 64) % 2 == 1, "an odd number of lines apart");
        // The second object is dropped first, so the first object is reused first.
        assert!(before == (0, 0) || before == (one, two), "{before:?}, {:?}", last.get());
    }
    turns(&processor, &world);
    let (bytes, objects, overflow) = figures(&processor);
    assert!((4000..100_000).contains(&bytes), "{bytes}");
    assert_eq!((objects, overflow), (0, 0), "without a region nothing is beyond it");
}

#[test]
fn beyond_the_region_is_spilled_and_counted() {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let builder = graph.build(1).remove(0).with_region(Region::new(vec![0u8; 128 << 10]));
    let (processor, world) = (builder.build(Box::new(|| ())), Bench::default());
    let fill = |count: usize| {
        settle(&processor, &world, || {
            stage
                .dispatch(move |_| async move {
                    let objects: Vec<_> = (0..count).map(|n| Pooled::new([n; 128])).collect();
                    assert!(objects.iter().enumerate().all(|(n, object)| object[127] == n));
                })
                .unwrap();
        });
        turns(&processor, &world);
        figures(&processor)
    };
    let (bytes, _, overflow) = fill(20);
    assert!(bytes > 0 && overflow == 0);
    let (slab_bytes, objects, overflow) = fill(1000);
    assert!(
        slab_bytes > 1 << 20 && overflow > 900_000 && overflow < slab_bytes,
        "{slab_bytes} {overflow}"
    );
    assert_eq!(objects, 0);
    assert_eq!(fill(1000), (slab_bytes, 0, overflow), "what was freed is used again");
}

#[test]
fn an_object_may_outlive_its_processor() {
    let processor = single_processor(Graph::new());
    let object = processor.enter(|| Pooled::new(String::from("still here")));
    drop(processor);
    assert_eq!(object.len(), 10);
}

#[test]
fn a_destructor_that_panics_gives_its_block_back() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("as it is meant to");
        }
    }
    let (processor, world) = (single_processor(Graph::new()), Bench::default());
    let object = processor.enter(|| Pooled::new((Panics, [0u8; 100])));
    let place = std::ptr::from_ref(&*object).addr();
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(object)));
    assert!(dropped.is_err());
    let reused = processor.enter(|| Pooled::new([0u8; 108]));
    assert_eq!(reused.as_ptr().addr(), place);
    drop(reused);
    turns(&processor, &world);
    assert_eq!(figures(&processor).1, 0);
}

#[test]
fn operation_types_are_recorded_and_large_ones_reported() {
    let mut graph = Graph::new();
    let stage = graph.stage("stage").object::<[u8; 1024]>("buffer").shared(());
    let (processor, world) = (single_processor(graph), Recorder::default());
    processor.enter(|| {
        for _ in 0..3 {
            stage.dispatch(move |_| small()).unwrap();
            while processor.turn(&world).ran > 0 {}
            let input = [0u8; 3000];
            stage.dispatch(move |_| large(input)).unwrap();
            while processor.turn(&world).ran > 0 {}
        }
    });
    let table = processor.control().bytes();
    let names: Vec<_> = table.operations.iter().map(|each| each.operation).collect();
    assert_eq!(names, ["it::memory::large", "it::memory::small"]);
    let large = table.operations[0];
    assert_eq!((large.invocation, large.result, large.stage), (3000, 0, 0));
    assert!(large.future >= 5000 && large.closure() == large.future && large.slot == 8192 + 64);
    assert_eq!((table.objects[0].name, table.objects[0].bytes), ("buffer", 1024));
    assert_eq!(*world.large.borrow(), [("stage", "it::memory::large")]);
}

async fn small() {}

async fn large(input: [u8; 3000]) {
    let copy = [input[0]; 2000];
    phalanx_core::yield_now().await;
    assert_eq!(copy[1999] + input[2999], 0);
}

/// A world that records large operations.
#[derive(Default)]
struct Recorder {
    world: Bench,
    large: std::cell::RefCell<Vec<(&'static str, &'static str)>>,
}

impl phalanx_core::World for Recorder {
    fn now(&self) -> u64 {
        self.world.now()
    }
    fn reap(&self) -> bool {
        false
    }
    fn submit(&self) {}
    fn park(&self, _timeout: Option<u64>) {}
    fn on_large_operation(&self, stage: &'static str, operation: &'static str, bytes: usize) {
        assert!(bytes > phalanx_core::LARGE_OPERATION);
        self.large.borrow_mut().push((stage, operation));
    }
    fn on_undeclared_object(
        &self,
        stage: &'static str,
        object: &'static str,
        bytes: usize,
        declared: usize,
    ) {
        assert!(bytes > declared && object == "[u8; 300]" && bytes == 300, "{object}");
        self.large.borrow_mut().push((stage, object));
    }
}

/// An object that is larger than those which its stage declares is reported once on each processor; stages without a
/// declaration are checked only if they share a budget.
#[test]
fn objects_are_compared_with_the_declared_ones() {
    for (budget, expected) in [(false, &["reads"][..]), (true, &["reads", "parses"])] {
        let mut graph = Graph::new();
        if budget {
            graph.ingress(phalanx_core::Ingress::Budget);
        }
        let reads = graph.stage("reads").entry().object::<[u8; 200]>("buffer").shared(());
        let parses = graph.shared("parses", ());
        let sufficient = graph.stage("enough").object::<[u8; 300]>("buffer").shared(());
        let (processor, world) = (single_processor(graph), Recorder::default());
        processor.enter(|| {
            for _ in 0..3 {
                for stage in [reads, parses, sufficient] {
                    stage
                        .dispatch(|_| async {
                            drop((Pooled::new([0u8; 300]), Pooled::new([0u8; 100])))
                        })
                        .unwrap();
                }
            }
            while processor.turn(&world).ran > 0 {}
        });
        let reported: Vec<_> = world.large.borrow().iter().map(|(stage, _)| *stage).collect();
        assert_eq!(reported, expected);
        let undeclared = processor.control().bytes().undeclared;
        assert_eq!(undeclared.len(), expected.len());
        assert_eq!((undeclared[0].stage, undeclared[0].bytes), (0, 300));
    }
}
