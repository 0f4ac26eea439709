//! A world whose callbacks panic, as a subscriber of events does.

use phalanx_core::{Graph, join};

use crate::support::{Count, Hostile, grow, hush, settle};

#[test]
fn a_subscriber_that_panics_stops_no_cohort() {
    hush();
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let direct = graph.stage("direct").direct().shared(());
    let ([processor], world, alive) = (grow(graph), Hostile::default(), Count::default());
    world.subscriber.set(true);
    processor.enter(|| {
        for n in 0..10 {
            let token = alive.token();
            let operation = stage.dispatch(move |_| async move {
                let _token = token;
                let wide = [n as u8; 2_000];
                let fails = || direct.call(|_| async { panic!("hostile child") });
                assert!(fails().await.is_err());
                assert!(direct.run(|_| async { panic!("hostile child") }).await.is_err());
                join(vec![fails(), fails()]).await;
                std::hint::black_box(&wide);
                panic!("hostile operation");
            });
            operation.unwrap();
        }
    });
    settle(std::slice::from_ref(&processor), &world);
    assert_eq!((processor.live(), alive.alive()), (0, 0));
    assert_eq!(world.told.borrow().len(), 50);
}
