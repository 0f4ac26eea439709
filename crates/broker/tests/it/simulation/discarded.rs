//! A session that CONNECT discards does not come back after a power cut.

use std::path::Path;

use phalanx::sim::{self, Faults};
use phalanx_mqtt::{Properties, QoS, Reason, Will};

use crate::simulation::power_cuts::{Files, start_broker, survivors};
use crate::simulation::wire::{ConnectOptions, Wire};

/// The end of the session is recorded after its will is published.
#[test]
fn a_session_with_a_will_is_gone_when_its_client_is_accepted() {
    sim::explore_each(30, |seed| {
        sim::run(seed, |world| {
            world.set_faults(Faults::NONE);
            start_broker(world, seed, &Files::default());
            let net = world.net();
            world.client(async move {
                let (topic, payload, qos, retain) = ("will", &b"x"[..], QoS::AtLeastOnce, false);
                let own = Will { topic, payload, qos, retain, properties: Properties::NONE };
                let options = ConnectOptions {
                    name: "c",
                    expiry: 1000,
                    will: Some(own),
                    ..ConnectOptions::default()
                };
                let Ok((wire, Reason::SUCCESS)) = Wire::open(&net, options).await else { panic!() };
                let options =
                    ConnectOptions { name: "c", clean_start: true, ..ConnectOptions::default() };
                let Ok((_, Reason::SUCCESS)) = Wire::open(&net, options).await else { panic!() };
                let left = phalanx_store::recover(&survivors(&net, 1), Path::new("/")).unwrap();
                assert!(left.sessions.is_empty(), "{:?}", left.sessions);
                drop(wire);
            });
        });
    });
}
