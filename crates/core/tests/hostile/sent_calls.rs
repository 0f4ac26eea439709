//! Calls that other threads cancel, await and drop while their processor runs, ends, and reuses the slots.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use phalanx_core::{Call, CallError, Control, Graph, yield_now};

use crate::common::run;
use crate::support::poll_once;

/// Calls of each processor: few under Miri.
const CALLS: usize = if cfg!(miri) { 10 } else { 1000 };

#[test]
fn other_threads_cancel_and_drop_calls() {
    let mut graph = Graph::new();
    graph.max_operations(64);
    let stage = graph.shared("stage", ());
    let (sender, receiver) = sync_channel::<Call<u8>>(16);
    let thread = std::thread::spawn(move || {
        for (number, mut call) in receiver.into_iter().enumerate() {
            match number % 4 {
                0 => call.cancel(),
                1 => {
                    call.cancel();
                    call.cancel();
                    drop(call.detach());
                }
                2 => {
                    let answer = poll_once(&mut call, Waker::noop());
                    let Poll::Ready(Err(CallError::WrongProcessor | CallError::Cancelled)) = answer
                    else {
                        panic!("a call was answered elsewhere: {answer:?}");
                    };
                }
                _ => (),
            }
        }
    });
    let sender = Arc::new(Mutex::new(sender));
    let started = sender.clone();
    run(graph, 2, move |_, control: Control| {
        let sender = started.lock().unwrap().clone();
        let calls = stage.dispatch(move |_| async move {
            for number in 0..CALLS {
                let call = stage.call(move |_| async move {
                    // Some end immediately, some after a while, some only when they are cancelled.
                    match number % 3 {
                        0 => std::future::pending().await,
                        1 => yield_now().await,
                        _ => (),
                    }
                    1
                });
                // Here nothing would cancel the call.
                if let Err(call) = sender.try_send(call) {
                    let (std::sync::mpsc::TrySendError::Full(call)
                    | std::sync::mpsc::TrySendError::Disconnected(call)) = call;
                    call.cancel();
                }
                yield_now().await;
            }
            // The processor ends while the other thread still has calls.
            control.end();
        });
        calls.expect("there is room for one");
    });
    drop(sender);
    thread.join().expect("no call was answered elsewhere");
}
