//! Publishers that verify their answers, and a writer that changes the index meanwhile.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use phalanx::{Graph, SharedStage, join, sleep, yield_now};
use phalanx_matcher::{Filter, Index, Subscription};
use phalanx_matching::{Matching, Options};

use crate::world::{self, Owned, World};

type Model = Vec<(Subscription, Filter)>;
pub(crate) type Attributes = Vec<(String, Owned)>;

/// The published states of the index, and the newest one known to all processors.
#[derive(Default)]
struct Published {
    models: Vec<Model>,
    /// Index in `models`: this state and all earlier ones are known everywhere.
    everywhere: usize,
}

/// The program's stages and the state shared by its operations.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) main: SharedStage<()>,
    pub(crate) matching: Matching<Attributes>,
    world: World,
    published: Arc<Mutex<Published>>,
}

impl Program {
    pub(crate) fn declare(graph: &mut Graph, options: Options, world: World) -> Program {
        let main = graph.shared("main", ());
        let matching = Matching::declare(graph, options, |event: &Attributes, snapshot| {
            snapshot.event(&world::borrowed(event))
        });
        // Before the first snapshot no event matches.
        let published = Published { models: vec![Model::new()], everywhere: 0 };
        Program { main, matching, world, published: Arc::new(Mutex::new(published)) }
    }

    /// Publishes `events` events in batches, and checks each answer.
    pub(crate) async fn publish_events(self, events: usize, mut rng: Rng) {
        let mut left = events;
        let mut waiting = VecDeque::new();
        while left > 0 || !waiting.is_empty() {
            for _ in 0..rng.usize(1..6).min(left) {
                let event = world::event(self.world, &mut rng);
                let from = self.published.lock().unwrap().everywhere;
                waiting.push_back((from, event.clone(), self.matching.call(event)));
                left -= 1;
            }
            match rng.u8(..4) {
                0 => yield_now().await,
                1 => sleep(std::time::Duration::from_millis(1)).await,
                _ => {}
            }
            for _ in 0..rng.usize(..8).min(waiting.len()) {
                let (from, event, call) = waiting.pop_front().unwrap();
                let matched = call.await.expect("an answer arrives");
                assert_eq!(format!("{:?}", matched.item), format!("{event:?}"), "its own answer");
                let mut found = matched.subscriptions.clone();
                found.sort_unstable();
                self.check(from, &event, &found);
            }
        }
    }

    /// Asserts that `found` is correct for an index published no earlier than `from`.
    fn check(&self, from: usize, event: &Attributes, found: &[Subscription]) {
        let event = world::borrowed(event);
        let published = self.published.lock().unwrap();
        let expected = |model: &Model| {
            let holds = model.iter().filter(|(_, filter)| filter.matches(&event));
            let mut expected: Vec<_> = holds.map(|(subscription, _)| *subscription).collect();
            expected.sort_unstable();
            expected
        };
        let fits = published.models[from..].iter().any(|model| expected(model) == found);
        assert!(
            fits,
            "{event:?} gave {found:?}, expected from {:?}",
            expected(&published.models[from])
        );
    }

    /// Changes and publishes the index `times` times.
    pub(crate) async fn change_index(self, times: usize, mut rng: Rng) {
        let mut index = Index::new(phalanx_matcher::Options::default());
        let mut model = Model::new();
        for _ in 0..times {
            for _ in 0..rng.usize(1..30) {
                if rng.u8(..3) == 0 && !model.is_empty() {
                    let (removed, _) = model.swap_remove(rng.usize(..model.len()));
                    assert!(index.remove(removed));
                } else if let Ok(filter) = Filter::parse(&world::filter(self.world, &mut rng)) {
                    model.push((index.insert(&filter), filter));
                }
            }
            let at = {
                let mut published = self.published.lock().unwrap();
                published.models.push(model.clone());
                published.models.len() - 1
            };
            self.matching.publish(&index.snapshot()).await.expect("the connection is taken over");
            self.published.lock().unwrap().everywhere = at;
            if rng.bool() {
                sleep(std::time::Duration::from_millis(1)).await;
            }
        }
    }

    /// Runs publishers and writer on the processor that starts it.
    pub(crate) async fn run(self, publishers: usize, events: usize, mut rng: Rng) {
        let work = (0..publishers).map(|_| {
            let (program, rng) = (self.clone(), rng.fork());
            self.main.call(move |_| program.publish_events(events, rng))
        });
        let work: Vec<_> = work.collect();
        for done in join(work).await {
            done.expect("a publisher has checked all answers");
        }
    }
}
