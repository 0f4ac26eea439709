//! `cargo xtask slow`: the effect of a thousand slow clients of each kind on a normal one.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::server::{Client, Server, TIMEOUT};
use super::{Home, binary, quantile, with_each_driver};
use crate::task::{Failure, Outcome};

/// Modes of slowhttptest: slow heads, slow bodies, and answers that are not read.
const KINDS: [(&str, &[&str], ConnectionState); 3] = [
    ("heads", &["-H", "-i", "2", "-x", "24"], ConnectionState::Held),
    ("bodies", &["-B", "-i", "2", "-s", "60000", "-x", "10"], ConnectionState::Closed),
    (
        "readers",
        &["-X", "-w", "64", "-y", "512", "-n", "1", "-z", "32", "-k", "1"],
        ConnectionState::Held,
    ),
];

/// The connections of slow clients when they have started.
#[derive(Clone, Copy)]
enum ConnectionState {
    /// They are open, and slow.
    Held,
    /// The server has answered and closed them: it rejects a POST to a file without awaiting the body.
    Closed,
}
/// Maximum time until all slow clients are connected, on a loaded machine.
const MAX_START: Duration = Duration::from_secs(30);
/// Maximum ratio of a normal client's p99 with and without slow clients.
const MAX_RATIO: f64 = 2.0;
/// Latencies below this are treated as equal.
const MIN_LATENCY: Duration = Duration::from_micros(500);
/// Maximum memory of a slow connection, in bytes: its own and one answer.
const MAX_MEMORY: u64 = 64 * 1024;

/// Runs slowhttptest next to a normal client on each driver and prints the results of both.
pub(crate) fn run(root: &Path, count: u64, seconds: u64) -> Outcome {
    let (binary, home) = (binary(root)?, Home::create("slow")?);
    std::fs::write(home.root().join("large"), vec![b'x'; 8 << 20])?;
    println!("a GET of 2 KiB every millisecond, with {count} slow connections, {seconds} s each");
    // Latency is measured here; overload control would reject requests on a busy machine.
    let arguments = ["--max-queue-delay", "0"];
    with_each_driver((&binary, &home), &arguments, |driver, server| {
        let mut is_ok = true;
        // The first requests pay for lazy initialization.
        probe(server, Duration::from_secs(1))?;
        for (kind, flags, state) in KINDS {
            let before = server.memory()?;
            let mut baseline = probe(server, Duration::from_secs(seconds))?;
            let idle = server.descriptors()?;
            let mut slow = slow_clients(server, count, seconds, flags)?;
            let mut open = idle;
            slow.await_state(state, count, || {
                open = server.descriptors()?;
                Ok(open.saturating_sub(idle) as u64)
            })?;
            // The last ones connect and send their requests.
            std::thread::sleep(Duration::from_secs(3));
            let mut under_load = probe(server, Duration::from_secs(seconds))?;
            let after = server.memory()?;
            drop(slow);
            let (p99, baseline_p99) =
                (quantile(&mut under_load, 0.99), quantile(&mut baseline, 0.99));
            let ratio = p99.as_secs_f64() / baseline_p99.max(MIN_LATENCY).as_secs_f64();
            let each = after.saturating_sub(before) / count;
            let within_limits = ratio <= MAX_RATIO && each <= MAX_MEMORY;
            println!(
                "{driver}, {kind}: p50 {:?} and {:?} beside, p99 {baseline_p99:?} and {p99:?} (x {ratio:.2}); \
                 {open} descriptors, {each} bytes of memory for each: {}",
                quantile(&mut baseline, 0.5),
                quantile(&mut under_load, 0.5),
                if within_limits { "well" } else { "NOT WELL" },
            );
            is_ok &= within_limits;
        }
        Ok(is_ok)
    })
}

/// Latencies of a client that sends a request every millisecond. A busy server may reject one in a hundred.
fn probe(server: &Server, during: Duration) -> Result<Vec<Duration>, String> {
    let failed = |error| format!("a normal client's request failed: {error}");
    let mut client = Client::connect(server.address).map_err(failed)?;
    let (start, mut times, mut refused) = (Instant::now(), Vec::new(), 0);
    while start.elapsed() < during {
        let request_start = Instant::now();
        let answer = client.get("/small").map_err(failed)?;
        match answer.status {
            200 => times.push(request_start.elapsed()),
            503 => refused += 1,
            status => return Err(format!("a normal client received status {status}")),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    match refused * 100 <= times.len() {
        true => Ok(times),
        false => {
            Err(format!("a normal client was rejected {refused} times and served {}", times.len()))
        }
    }
}

/// A slowhttptest process, killed when dropped.
struct Slow(Child);

impl Slow {
    /// Waits until the clients have started.
    ///
    /// # Errors
    /// Like [`check`](Self::check), after [`MAX_START`].
    fn await_state(
        &mut self,
        state: ConnectionState,
        count: u64,
        mut connected: impl FnMut() -> Result<u64, Failure>,
    ) -> Result<(), Failure> {
        let start = Instant::now();
        loop {
            let checked = self.check(state, connected()?, count);
            if checked.is_ok() || start.elapsed() > MAX_START {
                return Ok(checked?);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Checks that the clients are there, or were.
    ///
    /// # Errors
    /// If fewer than nine in ten are connected that should be, or the process has ended; if connections that should be
    /// closed are open, or the process has failed.
    fn check(&mut self, state: ConnectionState, connected: u64, count: u64) -> Result<(), String> {
        let exited = self.0.try_wait().map_err(|error| format!("slowhttptest: {error}"))?;
        let progress = format!("{connected} of {count} slow clients are connected");
        match (state, exited) {
            (ConnectionState::Held, None) if connected * 10 >= count * 9 => Ok(()),
            (ConnectionState::Held, None) => Err(format!("only {progress}")),
            (ConnectionState::Closed, Some(status))
                if status.success() && connected * 10 <= count =>
            {
                Ok(())
            }
            (_, None) => Err(progress),
            (_, Some(status)) => Err(format!("slowhttptest has ended: {status}; {progress}")),
        }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts slow clients, which remain for some seconds after their start.
fn slow_clients(server: &Server, count: u64, seconds: u64, flags: &[&str]) -> Result<Slow, String> {
    let seconds = seconds + MAX_START.as_secs() + 10;
    let (count, seconds) = (count.to_string(), seconds.to_string());
    let url = format!("http://{}/large", server.address);
    let mut command = Command::new("slowhttptest");
    command.args(flags).args(["-c", &*count, "-r", &*count, "-l", &*seconds, "-u", &*url]);
    command.args(["-p", &*TIMEOUT.as_secs().to_string()]);
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().map_err(|error| format!("slowhttptest: {error}"))?;
    Ok(Slow(child))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_clients_that_are_missing_are_an_error() {
        let start = |program: &str, argument: &str| {
            Slow(Command::new(program).arg(argument).spawn().expect("a program of every system"))
        };
        let mut slow = start("sleep", "60");
        assert_eq!(slow.check(ConnectionState::Held, 900, 1000), Ok(()));
        // slowhttptest ends when the server has closed all connections.
        for (state, connected) in [(ConnectionState::Held, 899), (ConnectionState::Closed, 0)] {
            let progress = format!("{connected} of 1000");
            assert!(
                slow.check(state, connected, 1000).is_err_and(|error| error.contains(&progress))
            );
        }
        let exited = |program| {
            let mut exited = start(program, "");
            exited.0.wait().expect("a child");
            exited
        };
        let held = exited("true").check(ConnectionState::Held, 1000, 1000);
        assert!(held.is_err_and(|progress| progress.contains("has ended")));
        assert_eq!(exited("true").check(ConnectionState::Closed, 0, 1000), Ok(()));
        assert!(exited("true").check(ConnectionState::Closed, 101, 1000).is_err());
        assert!(exited("false").check(ConnectionState::Closed, 0, 1000).is_err());
        let mut connected = 600..;
        let arriving =
            slow.await_state(ConnectionState::Held, 602, || Ok(connected.next().unwrap_or(0) - 60));
        assert!(arriving.is_ok(), "{arriving:?}");
    }
}
