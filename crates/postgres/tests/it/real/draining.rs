//! Queries while the program drains.

use phalanx::{Graph, Runtime};
use phalanx_postgres::{Database, Statement};

use super::shared_server;

/// An operation that completes in the drain executes one statement after the other.
#[test]
fn queries_of_the_drain_share_a_connection() {
    let Some(config) = shared_server() else { return };
    let mut graph = Graph::new();
    let callers = graph.shared("callers", ());
    let database = Database::declare(&mut graph, config);
    let (sender, processes) = std::sync::mpsc::channel();
    let ran = Runtime::new().processors(1).signals(false).run(graph, |start| {
        let (control, sender) = (start.control(), sender.clone());
        callers.dispatch(move |_| async move {
            let process = Statement::new("SELECT pg_backend_pid()", &[]);
            for query in 0..20 {
                let rows = database.query(&process, &[]).await.unwrap();
                sender.send(rows.first().unwrap().get::<i32>(0)).unwrap();
                if query == 0 {
                    control.drain();
                    phalanx::shutdown::draining().await;
                }
            }
        })?;
        Ok(())
    });
    ran.unwrap();
    drop(sender);
    let mut processes: Vec<_> = processes.iter().collect();
    assert_eq!(processes.len(), 20);
    processes.dedup();
    // A pause of the machine can make it more than one.
    assert!(processes.len() < 10, "{}", processes.len());
}
