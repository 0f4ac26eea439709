//! A small key-value server on Phalanx and on tokio, for `compare.py`.
//!
//! `phalanx-map ARM [SPIN]` serves `GET` and `SET` of the Redis protocol until it is killed, and prints
//! `listening on ADDR:PORT`. The arms:
//!
//! - `tokio-mutex`: tokio's work-stealing runtime; a map in 32 shards, each under a mutex.
//! - `tokio-partitioned`: two single-threaded runtimes; each owns half of the keys and sends requests for the
//!   others through a channel.
//! - `phalanx-mutex`: the sharded map as the state of a shared stage.
//! - `phalanx-partitioned`: a partitioned stage.
//! - `phalanx-migrating`: a partitioned stage whose partitions migrate to their callers.
//!
//! SPIN is `Runtime::spin` in microseconds, by default the runtime's default. The variable
//! `PHALANX_DRIVER` selects the driver, and `MAP_PROCESSORS` sets the number of threads, by default 2.

use std::error::Error;
use std::net::SocketAddr;

mod phalanx_arm;
mod protocol;
mod table;
mod tokio_arm;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let spin = arguments.get(1).map(|text| text.parse()).transpose()?;
    match arguments.first().map(String::as_str) {
        Some("tokio-mutex") => tokio_arm::mutex(),
        Some("tokio-partitioned") => tokio_arm::partitioned(),
        Some("phalanx-mutex") => phalanx_arm::mutex(spin),
        Some("phalanx-partitioned") => phalanx_arm::partitioned(spin),
        Some("phalanx-migrating") => phalanx_arm::migrating(spin),
        _ => {
            Err("usage: phalanx-map ARM [SPIN], with an ARM of the list at the top of main.rs"
                .into())
        }
    }
}

/// The number of threads.
fn processors() -> Result<usize, Box<dyn Error>> {
    Ok(std::env::var("MAP_PROCESSORS").map_or(Ok(2), |text| text.parse())?)
}

fn announce(address: SocketAddr) {
    println!("listening on {address}");
}
