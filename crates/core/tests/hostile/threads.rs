//! Processors on separate threads send each other operations that panic, and end them in the meantime.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use phalanx_core::{CallError, Control, Graph, Session, join, oneshot, yield_now};

use crate::common::run;
use crate::support::{Bomb, silence_expected_panics};

/// Rounds of each processor: few under Miri, which takes a thousand times as long.
const ROUNDS: usize = if cfg!(miri) { 3 } else { 200 };

/// Counts the tokens that are alive, over all threads.
struct Token(Arc<AtomicUsize>);

impl Token {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self(alive.clone())
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn remote_operations_that_panic_are_dropped_once() {
    silence_expected_panics();
    let alive = Arc::new(AtomicUsize::new(0));
    let mut graph = Graph::new();
    graph.max_operations(64);
    let front = graph.shared("front", ());
    let back = graph.stage("back").max_cohort(4).shared(());
    let (count, remaining) = (alive.clone(), Arc::new(AtomicUsize::new(2)));
    run(graph, 2, move |index, control: Control| {
        let (alive, remaining, other) = (count.clone(), remaining.clone(), 1 - index);
        let operation = front.dispatch(move |_| async move {
            for round in 0..ROUNDS {
                let session = Session::new();
                let calls = session.scope(|| {
                    let call = |n: usize| {
                        let (token, bomb) = (Token::new(&alive), Bomb);
                        back.call_on(other, move |_| async move {
                            let text = format!("{n}");
                            match n % 4 {
                                0 => drop(bomb),
                                1 => panic!("hostile operation"),
                                2 => std::future::pending().await,
                                _ => std::mem::forget(bomb),
                            }
                            drop(token);
                            text
                        })
                    };
                    [call(round), call(round + 1), call(round + 2), call(round + 3)]
                });
                let (sender, receiver) = oneshot::shared();
                let token = Token::new(&alive);
                let foreign = std::thread::spawn(move || sender.send(token));
                drop(receiver.await.expect("fired"));
                foreign.join().unwrap();
                if round % 2 == 0 {
                    yield_now().await;
                }
                let [a, b, c, d] = calls;
                a.cancel();
                drop(session.end());
                drop(b);
                for result in join(vec![a, c, d]).await {
                    assert!(!matches!(result, Err(CallError::ReplyDropped { .. })), "{result:?}");
                }
                session.end().await;
            }
            if remaining.fetch_sub(1, Ordering::Relaxed) == 1 {
                control.drain();
            }
        });
        operation.unwrap();
    });
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}
