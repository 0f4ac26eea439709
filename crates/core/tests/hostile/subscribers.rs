//! A world whose callbacks panic, as a subscriber of events does.

use phalanx_core::{Graph, join};

use crate::support::{Count, HostileWorld, build, settle, silence_expected_panics};

#[test]
fn a_subscriber_that_panics_stops_no_cohort() {
    silence_expected_panics();
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let direct = graph.stage("direct").direct().shared(());
    let ([processor], world, alive) = (build(graph), HostileWorld::default(), Count::default());
    world.subscriber.set(true);
    processor.enter(|| {
        for n in 0..10 {
            let token = alive.token();
            let operation = stage.dispatch(move |_| async move {
                let _token = token;
                let wide = [n as u8; 2_000];
                let failing_call = || direct.call(|_| async { panic!("hostile child") });
                assert!(failing_call().await.is_err());
                assert!(direct.run(|_| async { panic!("hostile child") }).await.is_err());
                join(vec![failing_call(), failing_call()]).await;
                std::hint::black_box(&wide);
                panic!("hostile operation");
            });
            operation.unwrap();
        }
    });
    settle(std::slice::from_ref(&processor), &world);
    assert_eq!((processor.live(), alive.alive()), (0, 0));
    assert_eq!(world.panics.borrow().len(), 50);
}
