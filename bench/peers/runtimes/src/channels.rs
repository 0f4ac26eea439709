//! Calls to another thread over runtime-independent channels, for runtimes without channels of their own.

use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::warmed;

/// One end: a sender and a receiver.
pub(crate) struct End {
    to: Sender<usize>,
    from: Receiver<usize>,
}

/// Two connected ends.
pub(crate) fn pair() -> (End, End) {
    let (ask, asked) = channel(16);
    let (answer, answered) = channel(16);
    (End { to: ask, from: answered }, End { to: answer, from: asked })
}

/// Sends `times` requests one after another, and returns the nanoseconds per request.
pub(crate) async fn ask(mut end: End, times: usize) -> f64 {
    let questions = async |times: usize| {
        for n in 0..times {
            end.to.send(n).await.expect("the other thread is running");
            assert_eq!(end.from.recv().await, Some(n));
        }
    };
    warmed(times, questions).await
}

/// Answers until the other end is dropped.
pub(crate) async fn answer(mut end: End) {
    while let Some(n) = end.from.recv().await {
        let _ = end.to.send(n).await;
    }
}
