//! Servers that follow a script, on a network that moves all bytes.

use std::collections::HashMap;
use std::future::Future;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use phalanx::net::{IoTimeout, Stream};
use phalanx::sim::{self, Faults};
use phalanx::{Graph, sleep};
use phalanx_postgres::{Config, Database};
use phalanx_testkit::postgres::messages::{put, put_welcome, take};

/// The limits of time. Simulated time may jump by seconds.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// Runs `main` with a database. The server serves connection number N, from 0, with `serve(stream, N)`.
pub(crate) fn with_server<S, M>(
    config: fn(Config) -> Config,
    serve: impl Fn(Stream, usize) -> S + Copy + Send + Sync + 'static,
    main: impl Fn(Database) -> M + Copy + Send + Sync + 'static,
) where
    S: Future<Output = ()> + 'static,
    M: Future<Output = ()> + 'static,
{
    sim::explore(4, move |world| {
        world.set_faults(Faults { immediate: 500, ..Faults::NONE });
        world.set_max_steps(2_000_000);
        let address = "10.0.0.1:5432".parse().unwrap();
        let mut graph = Graph::new();
        let (callers, servers) = (graph.shared("callers", ()), graph.shared("servers", ()));
        let limits = Config::tcp(address).connect_timeout(HOUR).queue_timeout(HOUR);
        let database = Database::declare(&mut graph, config(limits.query_timeout(HOUR)));
        let listeners = world.listen(address);
        let (connections, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::default());
        let over: Arc<AtomicBool> = Arc::clone(&is_over);
        world.program(graph, move |start| {
            let (listener, connections) = (listeners.listener(start)?, connections.clone());
            servers.dispatch(move |_| {
                listener.accept_each(move |stream| {
                    let number = connections.fetch_add(1, Ordering::Relaxed);
                    let _ = servers.dispatch(move |_| serve(stream, number));
                })
            })?;
            if start.processor() == 0 {
                let over = over.clone();
                callers.dispatch(move |_| async move {
                    main(database).await;
                    over.store(true, Ordering::Relaxed);
                })?;
            }
            Ok(())
        });
        let net = world.net();
        world.client(async move {
            while !is_over.load(Ordering::Relaxed) {
                net.sleep(HOUR / 6).await;
            }
        });
    });
}

/// The begin of a request to cancel a statement, in the place of the first message of a connection.
const CANCEL: &[u8] = &80_877_102_u32.to_be_bytes();

/// How a server treats the execution of a statement.
pub(crate) enum NextStep {
    Continue,
    /// Skips the rest of the transaction.
    Skip,
    /// Sends its output and closes the connection.
    Close,
    /// Continues after a pause.
    Pause(Duration),
}

/// Serves a connection. `execute` gets the text of each statement that is executed, and `cancel` for a request to cancel
/// one. Statements whose text says so wait at their preparation, or are not bound.
pub(crate) async fn serve(stream: Stream, mut execute: impl FnMut(&str, &mut Vec<u8>) -> NextStep) {
    let (mut input, mut output, mut has_started) = (Vec::new(), Vec::new(), false);
    let (mut statements, mut bound, mut skips) = (HashMap::new(), String::new(), false);
    loop {
        while let Some((tag, body)) = take(&mut input, &mut has_started) {
            let mut texts = body.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text));
            let mut text = || texts.next().unwrap_or_default().into_owned();
            let mut next = NextStep::Continue;
            match tag {
                0 if body.starts_with(CANCEL) => {
                    execute("cancel", &mut output);
                    return;
                }
                0 => put_welcome(&mut output),
                b'S' => {
                    skips = false;
                    put(&mut output, b'Z', b"I");
                }
                b'X' => return,
                _ if skips => {}
                b'C' => put(&mut output, b'3', b""),
                b'P' => {
                    let (name, sql) = (text(), text().replacen("SELECT ", "", 1));
                    next = match &*sql {
                        "waits for a lock" => NextStep::Pause(10 * HOUR),
                        _ => NextStep::Continue,
                    };
                    statements.insert(name, sql);
                    put(&mut output, b'1', b"");
                }
                b'D' => put(&mut output, b'n', b""),
                b'B' => {
                    bound = statements[&(text(), text()).1].clone();
                    if !bound.starts_with("not bound") {
                        put(&mut output, b'2', b"");
                    }
                }
                b'E' => next = execute(&bound, &mut output),
                _ => panic!("the client sent a message {:?}", tag as char),
            }
            match next {
                NextStep::Continue => {}
                NextStep::Skip => skips = true,
                NextStep::Close => {
                    // Bytes that are not read would discard the output.
                    let _ = stream.write(output, IoTimeout::NONE).await;
                    let _ = stream.shutdown(Shutdown::Write);
                    while let Ok(1..) = stream.read(&mut input, IoTimeout::NONE).await {}
                    return;
                }
                NextStep::Pause(time) => {
                    let sent = std::mem::take(&mut output);
                    if stream.write(sent, IoTimeout::NONE).await.is_err() {
                        return;
                    }
                    sleep(time).await;
                }
            }
        }
        let sent = std::mem::take(&mut output);
        let is_sent = sent.is_empty() || stream.write(sent, IoTimeout::NONE).await.is_ok();
        if !is_sent || !matches!(stream.read(&mut input, IoTimeout::NONE).await, Ok(1..)) {
            return;
        }
    }
}
