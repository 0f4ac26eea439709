//! The same small tasks on Phalanx and on other runtimes, each in a separate process, for `phalanx-bench
//! runtimes`:
//!
//! - `phalanx-runtimes child RUNTIME N`: a cohort of parents, each spawning and awaiting one child after another,
//!   on one thread; N children in total.
//! - `phalanx-runtimes cross RUNTIME N`: one thread requests a number from another and waits for it, N times.
//! - `phalanx-runtimes echo RUNTIME`: a single-threaded echo server, which runs until it is killed; it prints
//!   `listening on echo://ADDR:PORT`.
//!
//! The first two print nanoseconds per item, after a tenth of the items as a warm-up.

use std::hint::black_box;
use std::time::Instant;

mod channels;
mod glommio_arm;
mod monoio_arm;
mod phalanx_arm;
mod tokio_arm;

/// Number of concurrent parents.
const PARENTS: usize = 64;
/// Buffer size of the server in bytes.
const CHUNK: usize = 4096;

/// The tasks of a runtime.
struct Arm {
    name: &'static str,
    child: fn(usize) -> f64,
    cross: fn(usize) -> f64,
    echo: fn() -> Result<(), Box<dyn std::error::Error>>,
}

const ARMS: [Arm; 4] = [phalanx_arm::ARM, tokio_arm::ARM, glommio_arm::ARM, monoio_arm::ARM];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = || {
        let names = ARMS.map(|arm| arm.name).join("|");
        format!("usage: phalanx-runtimes child|cross {names} N, or: echo {names}")
    };
    let arm = arguments.get(1).and_then(|name| ARMS.iter().find(|arm| arm.name == *name));
    let arm = arm.ok_or_else(usage)?;
    let times = || arguments.get(2).and_then(|text| text.parse().ok()).ok_or_else(usage);
    match arguments[0].as_str() {
        "child" => println!("{}", (arm.child)(times()?)),
        "cross" => println!("{}", (arm.cross)(times()?)),
        "echo" => (arm.echo)()?,
        _ => return Err(usage().into()),
    }
    Ok(())
}

/// Runs `work` for `times` items after a tenth of them as a warm-up, and prints the nanoseconds per item.
async fn warmed(times: usize, mut work: impl AsyncFnMut(usize)) -> f64 {
    work(times / 10).await;
    let begun = Instant::now();
    work(times).await;
    begun.elapsed().as_nanos() as f64 / times as f64
}

/// Children per parent.
fn of_each(times: usize) -> usize {
    black_box((times / PARENTS).max(1))
}

fn announce(address: std::net::SocketAddr) {
    println!("listening on echo://{address}");
}
