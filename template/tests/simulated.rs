//! The application in simulation: a seed determines the order of events, short reads and writes, and resets. A failing
//! seed is printed; `PHALANX_SEED=NUMBER cargo test` repeats it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use phalanx::Graph;
use phalanx::sim::{self, Client};
use phalanx_axum::Stages;
use {{crate_name}}::{Counters, router};

/// The count after an addition; none if the connection was lost.
async fn add(client: &mut Client) -> Option<u64> {
    let request = b"POST /counters/a HTTP/1.1\r\nhost: x\r\n\r\n";
    client.write_all(request).await.ok()?;
    let mut received = Vec::new();
    while !received.ends_with(b"}") {
        if client.read(&mut received).await.ok()? == 0 {
            return None;
        }
    }
    let text = String::from_utf8(received).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    let (_, count) = text.trim_end_matches('}').rsplit_once("\"count\":").unwrap();
    Some(count.parse().unwrap())
}

#[test]
fn no_addition_is_lost_or_counted_twice() {
    let answered = Arc::new(AtomicUsize::new(0));
    let counted = answered.clone();
    sim::explore(100, move |world| {
        let address = "10.0.0.1:80".parse().unwrap();
        let mut graph = Graph::new();
        let http = Stages::declare(&mut graph);
        let app = router(Counters::declare(&mut graph));
        let endpoints = world.listen(address);
        world.program(graph, move |start| {
            http.serve(endpoints.listener(start)?, app.clone())?;
            Ok(())
        });
        let (sent, confirmed) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        for _ in 0..3 {
            let (net, sent, confirmed) = (world.net(), sent.clone(), confirmed.clone());
            let answered = counted.clone();
            world.client(async move {
                let Ok(mut client) = net.connect(address).await else { return };
                for _ in 0..5 {
                    let before = confirmed.get();
                    sent.set(sent.get() + 1);
                    let Some(count) = add(&mut client).await else { return };
                    assert!(count > before, "{count}, but {before} were confirmed before");
                    assert!(count <= sent.get(), "{count}, but only {} were sent", sent.get());
                    confirmed.set(confirmed.get() + 1);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert!(answered.load(Ordering::Relaxed) > 0, "no request was answered");
}
