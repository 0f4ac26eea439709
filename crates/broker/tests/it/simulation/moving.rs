//! Connections move between processors that become active and inactive.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use phalanx::runtime::ActiveProcessors;
use phalanx::sim::{self, World};

use crate::simulation::run_world;

const STEPS: usize = 60;

fn world(world: &mut World) {
    world.set_processors(2 + world.seed() as usize % 4);
    let active: Rc<RefCell<Option<ActiveProcessors>>> = Rc::default();
    let set = active.clone();
    run_world(world, move |active| _ = set.replace(Some(active)));
    let net = world.net();
    world.client(async move {
        for step in 0..STEPS {
            net.sleep(Duration::from_micros(net.draw(2_000))).await;
            let active = active.borrow().clone().expect("it has started");
            active.set(if step == STEPS - 1 {
                1
            } else {
                1 + net.draw(active.all() as u64) as usize
            });
        }
    });
}

#[test]
fn acknowledged_messages_arrive_while_connections_move() {
    sim::explore(60, world);
}
