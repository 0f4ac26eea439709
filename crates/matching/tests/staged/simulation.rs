//! In simulation: any order of stages, on any number of processors.

use std::time::Duration;

use fastrand::Rng;
use phalanx::{Graph, sim};
use phalanx_matching::Options;

use crate::publishers::Program;
use crate::world::World;

#[test]
fn answers_are_correct_in_any_schedule() {
    sim::explore(60, |world| {
        let small = World { names: 3, constants: 4, depth: 1 };
        let age = Duration::from_micros(world.draw(3) * 700);
        let capacity = [1, 3, 4096][world.draw(3) as usize];
        let mut graph = Graph::new();
        let program = Program::declare(&mut graph, Options { age, capacity }, small);
        let seed = world.seed();
        world.program(graph, move |start| {
            let (at, main) = (start.processor(), program.main);
            let rng = Rng::with_seed(seed * 64 + at as u64);
            let publishers = program.clone();
            main.dispatch(move |_| publishers.run(3, 25, rng))?;
            if at == 0 {
                let writer = program.clone();
                main.dispatch(move |_| writer.change_index(8, Rng::with_seed(seed)))?;
            }
            Ok(())
        });
    });
}
