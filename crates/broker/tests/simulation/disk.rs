//! The disk takes no writes: who would have to wait for it is told so, and others are served.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sim::{self, Faults};
use phalanx_mqtt::Reason;

use crate::crashes::{Files, begin, survivors};
use crate::wire::Wire;

/// What a broker has kept that a client was with.
fn with_a_session(seed: u64) -> Files {
    let files: Rc<RefCell<Files>> = Rc::default();
    let of_world = files.clone();
    sim::run(seed, |world| {
        begin(world, seed, &Files::default());
        let net = world.net();
        world.client(async move {
            Wire::connect(&net, "known").await;
            of_world.replace(survivors(&net, 1));
        });
    });
    files.take()
}

#[test]
fn nobody_waits_for_a_disk_that_takes_nothing() {
    sim::explore_each(30, |seed| {
        let files = with_a_session(seed);
        sim::run(seed, |world| {
            world.set_faults(Faults { full: 1000, ..Faults::NONE });
            begin(world, seed, &files);
            let net = world.net();
            world.client(async move {
                let ask = async |name: &str, expiry| match Wire::ask(&net, name, expiry).await {
                    Ok((_wire, reason)) => reason,
                    Err(_) => panic!("{name} is not answered"),
                };
                let begun = net.now();
                for name in ["known", "known", "new"] {
                    assert_eq!(ask(name, 60).await, Reason::SERVER_UNAVAILABLE, "{name}");
                }
                // Of whom nothing is kept.
                assert_eq!(ask("guest", 0).await, Reason::SUCCESS);
                assert!(net.now() - begun < Duration::from_secs(60), "{:?}", net.now() - begun);
                // The program gives up what it cannot write.
                net.drain();
            });
        });
    });
}
