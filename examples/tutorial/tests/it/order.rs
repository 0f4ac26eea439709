//! The order of operations described in the tutorial.

use phalanx::{CallError, Graph, PartitionedStage, Runtime};

/// Dispatches an operation that appends two numbers, then reads the length.
async fn length(list: PartitionedStage<Vec<u32>>) -> Result<usize, CallError> {
    drop(list.call(0, |list| async move { list.with(|list| list.push(1)) }));
    list.dispatch(0, |list| async move { list.with(|list| list.push(2)) })?;
    list.call(0, |list| async move { list.with(|list| list.len()) }).await // it is 2
}

#[test]
fn a_call_sees_the_effects_of_earlier_calls() {
    for processors in [1, 2] {
        let mut graph = Graph::new();
        let main = graph.shared("main", ());
        let list = graph.partitioned("list", |_partition| Vec::new());
        let (sender, lengths) = std::sync::mpsc::channel();
        let run = Runtime::new().processors(processors).signals(false).run(graph, move |start| {
            // One of two processors calls a partition of the other.
            if start.processor() + 1 == processors {
                let (control, sender) = (start.control(), sender.clone());
                main.dispatch(move |_| async move {
                    let _ = sender.send(length(list).await);
                    control.drain();
                })?;
            }
            Ok(())
        });
        run.expect("the program ends");
        assert_eq!(lengths.recv(), Ok(Ok(2)), "on {processors} processors");
    }
}
