//! Sessions over several processors: random trees of calls, one of which ends the session at a random moment. Nothing
//! is left of the session, and nothing else is affected.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use crate::common::Program;
use phalanx_core::{
    BalancedStage, CallError, Graph, PartitionedStage, Session, SharedStage, join, select_all,
    sleep, yield_now,
};
use proptest::prelude::*;

const PROCESSORS: usize = 3;

#[derive(Clone, Debug)]
enum Tree {
    /// Waits forever.
    Stuck,
    Sleep(u8),
    /// Gives a guard to an operation outside the session, which drops it later.
    SessionGuard(u8),
    /// Ends the session from inside.
    End,
    Await(usize, Box<Tree>),
    Leave(usize, Box<Tree>),
    Keyed(u64, Box<Tree>),
    Anywhere(Box<Tree>),
    All(Vec<(usize, Tree)>),
    Both(Box<Tree>, Box<Tree>),
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        4 => Just(Tree::Stuck),
        2 => (0u8..4).prop_map(Tree::Sleep),
        1 => (0u8..4).prop_map(Tree::SessionGuard),
    ];
    leaf.prop_recursive(6, 60, 4, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            3 => (0..PROCESSORS, boxed()).prop_map(|(at, tree)| Tree::Await(at, tree)),
            3 => (0..PROCESSORS, boxed()).prop_map(|(at, tree)| Tree::Leave(at, tree)),
            2 => boxed().prop_map(Tree::Anywhere),
            2 => (any::<u64>(), boxed()).prop_map(|(key, tree)| Tree::Keyed(key, tree)),
            2 => proptest::collection::vec((0..PROCESSORS, inner.clone()), 0..4)
                .prop_map(Tree::All),
            3 => (boxed(), boxed()).prop_map(|(one, two)| Tree::Both(one, two)),
            1 => Just(Tree::End),
        ]
    })
}

#[derive(Clone)]
struct Env {
    stage: SharedStage<()>,
    keyed: PartitionedStage<()>,
    balanced: BalancedStage<()>,
    alive: Arc<()>,
}

fn grow(env: Env, tree: Tree) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async move {
        let inner = env.clone();
        match tree {
            Tree::Stuck => std::future::pending().await,
            Tree::Sleep(ms) => sleep(std::time::Duration::from_millis(ms.into())).await,
            Tree::SessionGuard(yields) => {
                let guard = Session::current().expect("in the session").guard();
                let outside = Session::new();
                let kept = outside.scope(|| {
                    env.stage.dispatch(move |_| async move {
                        for _ in 0..yields {
                            yield_now().await;
                        }
                        drop((guard, inner));
                    })
                });
                kept.unwrap();
            }
            Tree::End => {
                drop(Session::current().expect("in the session").end());
            }
            Tree::Await(at, tree) => {
                let _ = env.stage.call_on(at, move |_| grow(inner, *tree)).await;
            }
            Tree::Leave(at, tree) => {
                let _ = env.stage.call_on(at, move |_| grow(inner, *tree)).detach();
            }
            Tree::Keyed(key, tree) => {
                let _ = env.keyed.call(key, move |_| grow(inner, *tree)).await;
            }
            Tree::Anywhere(tree) => {
                let _ = env.balanced.call(move |_| grow(inner, *tree)).await;
            }
            Tree::All(trees) => {
                let calls = trees.into_iter().map(|(at, tree)| {
                    let inner = inner.clone();
                    env.stage.call_on(at, move |_| grow(inner, tree))
                });
                join(calls.collect::<Vec<_>>()).await;
            }
            Tree::Both(one, two) => {
                grow(inner.clone(), *one).await;
                grow(inner, *two).await;
            }
        }
    })
}

fn run(tree: Tree, turns: &[u8]) {
    let mut graph = Graph::new();
    let env = Env {
        stage: graph.stage("stage").max_cohort(3).shared(()),
        keyed: graph.partitioned("keyed", |_| ()),
        balanced: graph.stage("balanced").max_cohort(2).balanced(()),
        alive: Arc::default(),
    };
    let program = Program::new(graph, PROCESSORS);
    let ended = Rc::new(Cell::new(false));
    let unrelated = program.processors[0].enter(|| {
        let other = Session::new();
        other.scope(|| env.stage.call(|_| sleep(std::time::Duration::from_millis(100))))
    });
    let session = program.processors[0].enter(|| {
        let (session, inner) = (Session::new(), env.clone());
        session.scope(|| env.stage.dispatch(move |_| grow(inner, tree))).unwrap();
        session
    });
    for at in turns {
        program.turn((*at).into());
    }
    program.processors[0].enter(|| {
        let (ended, alive, held) = (ended.clone(), env.alive.clone(), env.alive.clone());
        let ender = env.stage.dispatch(move |_| async move {
            session.end().await;
            assert_eq!(session.operations(), 0);
            // The references of this function, `env` and these two are left, so no operation of the session is.
            ended.set(Arc::strong_count(&alive) == 3);
            drop(held);
        });
        ender.unwrap();
    });
    program.settle(10);
    assert!(ended.get(), "not ended, or something of it was left");
    assert_eq!(program.live(), [1, 0, 0], "but for the bystander");
    program.settle(200);
    program.processors[0].enter(|| {
        assert!(unrelated.is_finished(), "ended with a session that was not its own");
        drop(unrelated);
    });
    assert_eq!((program.live(), Arc::strong_count(&env.alive)), (vec![0; 3], 1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn an_ended_session_leaves_nothing_on_any_processor(
        tree in tree(),
        turns in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        run(tree, &turns);
    }
}

#[test]
fn the_first_of_several_ends_the_rest() {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let program = Program::new(graph, PROCESSORS);
    let alive = Arc::new(());
    let winner = Rc::new(Cell::new(None));
    program.processors[0].enter(|| {
        let (alive, winner) = (alive.clone(), winner.clone());
        let race = stage.dispatch(move |_| async move {
            let calls = (0..9u32).map(|n| {
                let alive = alive.clone();
                stage.call_on(n as usize % 3, move |_| async move {
                    sleep(std::time::Duration::from_millis(if n == 4 { 5 } else { 50 })).await;
                    drop(alive);
                    n
                })
            });
            let (at, result) = select_all(calls.collect()).await;
            winner.set(Some((at, result.unwrap())));
            sleep(std::time::Duration::from_millis(5)).await;
            assert_eq!(Arc::strong_count(&alive), 2, "the rest are ended, also elsewhere");
            winner.set(Some((7, 7)));
        });
        race.unwrap();
    });
    program.settle(100);
    assert_eq!((winner.get(), program.live()), (Some((7, 7)), vec![0; 3]));
}

#[test]
fn a_child_is_cancelled_on_any_processor() {
    // Before it is accepted, while it waits, and when its result is in transit.
    for turns in 0..5 {
        let mut graph = Graph::new();
        let stage = graph.shared("stage", ());
        let program = Program::new(graph, 2);
        let call = program.processors[0].enter(|| {
            stage.call_on(1, |_| async {
                sleep(std::time::Duration::from_millis(2)).await;
                7
            })
        });
        program.turn(0);
        for turn in 0..turns {
            program.world.now.set(turn * 1_000_000);
            program.turn(1);
        }
        let outcome = Rc::new(Cell::new(None));
        let result = outcome.clone();
        program.processors[0].enter(|| {
            call.cancel();
            let waiting = stage.dispatch(move |_| async move { result.set(Some(call.await)) });
            waiting.unwrap();
        });
        program.settle(10);
        let expected = if turns < 3 { Err(CallError::Cancelled) } else { Ok(7) };
        assert_eq!(outcome.take(), Some(expected), "after {turns} turns");
        assert_eq!(program.live(), [0, 0]);
    }
}

#[test]
fn a_full_target_says_so() {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    graph.max_operations(4);
    let program = Program::new(graph, 2);
    program.processors[1].enter(|| {
        for _ in 0..4 {
            stage.dispatch(|_| std::future::pending()).unwrap();
        }
    });
    let outcome = Rc::new(Cell::new(None));
    let result = outcome.clone();
    program.processors[0].enter(|| {
        let caller = stage.dispatch(move |_| async move {
            result.set(Some(stage.call_on(1, |_| async { 1 }).await));
        });
        caller.unwrap();
    });
    program.settle(3);
    assert_eq!(outcome.take(), Some(Err(CallError::Full { stage: None, bound: 4 })));
}
