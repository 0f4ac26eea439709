//! Timers, calls, joins, events, pooled objects, sessions and replies on another processor.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use phalanx::stage::{Cohort, Pooled};
use phalanx::sync::oneshot;
use phalanx::task::{Reply, select_all};
use phalanx::{Call, CallError, Session, join, sleep, yield_now};

use super::{WRONG_PROCESSOR, later, no_client, panics, plain, polled_once, two};
use crate::harness::poll_once;

#[test]
fn timers_leave_their_processor() {
    two(
        plain,
        |_| async {
            let long_sleep = || polled_once(sleep(Duration::from_secs(3600)));
            [long_sleep().await, long_sleep().await, long_sleep().await]
        },
        |_, [dropped, mut awaited, mut reset]| async move {
            drop(dropped);
            let message = panics(|| {
                _ = std::pin::pin!(poll_once(&mut awaited))
                    .as_mut()
                    .poll(&mut std::task::Context::from_waker(Waker::noop()))
            });
            assert!(message.contains(WRONG_PROCESSOR), "{message}");
            assert!(panics(|| reset.reset(Duration::ZERO)).contains(WRONG_PROCESSOR));
        },
        no_client,
    );
}

#[test]
fn calls_leave_their_processor() {
    two(
        plain,
        |here| async move {
            let call = || here.stage.call(|_| later());
            let calls =
                [polled_once(call()).await, call(), call(), polled_once(call()).await, call()];
            let finished = here.stage.call(|_| async { 8 });
            while !finished.is_finished() {
                sleep(Duration::from_millis(1)).await;
            }
            (calls, finished)
        },
        |here, (calls, finished): ([Call<u32>; 5], Call<u32>)| async move {
            let [awaited, dropped, ended, run, detached] = calls;
            assert_eq!(awaited.await, Err(CallError::WrongProcessor));
            assert_eq!(finished.await, Err(CallError::WrongProcessor));
            drop(dropped);
            ended.cancel();
            ended.detach().unwrap();
            detached.detach().unwrap();
            let (at, result) = select_all(vec![run, here.stage.call(|_| later())]).await;
            assert_eq!((at, result), (0, Err(CallError::WrongProcessor)));
        },
        no_client,
    );
}

#[test]
fn an_operation_is_ended_from_elsewhere() {
    two(
        plain,
        |here| async move { [here.stage.call(|_| std::future::pending::<()>())] },
        |_, [call]| async move {
            // Without this the program would never end.
            call.cancel();
        },
        no_client,
    );
}

#[test]
fn joins_leave_their_processor() {
    two(
        plain,
        |here| async move {
            let pair = || join((here.stage.call(|_| later()), here.stage.call(|_| later())));
            [polled_once(pair()).await, polled_once(pair()).await]
        },
        |_, [awaited, dropped]| async move {
            assert_eq!(
                awaited.await,
                (Err(CallError::WrongProcessor), Err(CallError::WrongProcessor))
            );
            drop(dropped);
        },
        no_client,
    );
}

#[test]
fn a_join_goes_away_and_comes_home() {
    two(
        plain,
        |here| async move {
            let pair = join((here.stage.call(|_| later()), here.stage.call(|_| later())));
            let shared = Rc::new(RefCell::new(Some(polled_once(pair).await)));
            let lent = shared.clone();
            here.stage
                .dispatch(move |_| async move {
                    let pair = loop {
                        sleep(Duration::from_millis(300)).await;
                        if Rc::strong_count(&shared) == 1 {
                            break shared.take().expect("given back");
                        }
                    };
                    assert_eq!(pair.await, (Ok(7), Ok(7)));
                })
                .unwrap();
            lent
        },
        |_, lent| async move {
            yield_now().await;
            assert!(lent.borrow().is_some());
        },
        no_client,
    );
}

#[test]
fn events_work_between_processors() {
    two(
        plain,
        |here| async move {
            let (sender, wait) = oneshot::local();
            here.stage.dispatch(|_| async move { assert_eq!(wait.await, Some(5)) }).unwrap();
            let (there, moved) = oneshot::local();
            let moved = polled_once(moved).await;
            here.stage
                .dispatch(|_| async move {
                    sleep(Duration::from_millis(50)).await;
                    there.send(6);
                })
                .unwrap();
            (sender, moved)
        },
        |_, (sender, moved)| async move {
            sender.send(5);
            assert_eq!(moved.await, Some(6));
        },
        no_client,
    );
}

#[test]
fn pooled_objects_leave_their_processor() {
    two(
        plain,
        |_| async { [Pooled::new([1u64; 8]), Pooled::new([2; 8])] },
        |_, [mut one, two]| async move {
            let mine = Pooled::new([3u64; 8]);
            one[0] = two[0] + mine[0];
            drop(two);
            let more = Pooled::new([4u64; 8]);
            assert_eq!((one[0], mine[7], more[7]), (5, 3, 4));
        },
        no_client,
    );
}

#[test]
fn sessions_leave_their_processor() {
    two(
        plain,
        |here| async move {
            let session = Session::new();
            let hold = session.guard();
            let (second, mut end) = (Session::new(), session.end());
            assert!(poll_once(&mut end).await.is_pending(), "the hold is out");
            here.stage.dispatch(move |_| end).unwrap();
            (session, second, hold)
        },
        |here, (session, second, hold)| async move {
            for message in [
                panics(|| drop(session.end())),
                panics(|| _ = session.operations()),
                panics(|| drop(session.guard())),
                panics(|| session.set_deadline(Duration::ZERO)),
                panics(|| _ = second.scope(|| here.stage.dispatch(|_| async {}))),
            ] {
                assert!(message.contains(WRONG_PROCESSOR), "{message}");
            }
            // The end that waits for it on its own processor can complete now.
            drop(hold);
            drop((session, second));
        },
        no_client,
    );
}

/// Receives the reply of an item.
type TakenReply = Rc<Cell<Option<Reply<u32>>>>;

#[test]
fn replies_leave_their_processor() {
    // The second stage is declared in the same graph and has the next number.
    thread_local! {
        static ITEMS: Cell<Option<phalanx::stage::CohortStage<TakenReply, u32>>> = const { Cell::new(None) };
    }
    two(
        |graph| {
            let items = graph.stage("items").cohort(
                |_| (),
                |(), cohort: &mut Cohort<TakenReply, u32>| {
                    cohort.drain().for_each(|(item, reply)| item.set(Some(reply)));
                },
            );
            ITEMS.set(Some(items));
            graph.shared("stage", ())
        },
        |here| async move {
            let items = ITEMS.get().expect("declared");
            let mut taken = Vec::new();
            for _ in 0..2 {
                let item = TakenReply::default();
                let call = items.call(item.clone());
                here.stage
                    .dispatch(move |_| async move {
                        let unanswered = CallError::ReplyDropped { stage: "items" };
                        assert_eq!(call.await, Err(unanswered));
                    })
                    .unwrap();
                taken.push(loop {
                    match item.take() {
                        Some(reply) => break reply,
                        None => sleep(Duration::from_millis(1)).await,
                    }
                });
            }
            taken
        },
        |_, mut taken| async move {
            assert!(panics(|| taken.remove(0).send(1)).contains(WRONG_PROCESSOR));
            drop(taken);
        },
        no_client,
    );
}
