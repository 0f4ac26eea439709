//! `cargo xtask idle`: memory of the server per idle connection.

use std::path::Path;
use std::thread;
use std::time::Duration;

use super::server::Client;
use super::{Home, binary, with_each_driver};
use crate::task::Outcome;

/// Maximum memory of an idle connection in the server process, in bytes.
const MAX_BYTES_PER_CONNECTION: u64 = 4096;
/// Descriptors reserved for uses other than connections.
const RESERVED_DESCRIPTORS: u64 = 700;
/// Connections between one pair of loopback addresses; below the number of ephemeral ports.
const CONNECTIONS_PER_ADDRESS: u64 = 25_000;

/// Opens connections, sends one request on each, and prints the server's memory per connection.
pub(crate) fn run(root: &Path, connections: u64) -> Outcome {
    let limits = std::fs::read_to_string("/proc/self/limits")?;
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let limit = limit.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    let count = connections
        .min(limit.unwrap_or(1024).saturating_sub(RESERVED_DESCRIPTORS))
        .min(CONNECTIONS_PER_ADDRESS);
    if count < connections {
        println!(
            "{count} connections instead of {connections}: limited by descriptors or ports of this machine"
        );
    }
    let (binary, home) = (binary(root)?, Home::create("idle")?);
    let arguments = ["--workers", "1", "--idle-timeout", "3600s"];
    with_each_driver((&binary, &home), &arguments, |driver, server| {
        let mut open = Vec::new();
        let mut at = Vec::new();
        // The difference of two measurements excludes memory that does not grow with connections.
        let steps = [count / 4, count];
        for step in steps {
            while (open.len() as u64) < step {
                let mut client = Client::connect(server.address)?;
                let answer = client.get("/small")?;
                if answer.status != 200 {
                    let number = open.len();
                    return Err(format!("{} for connection {number}", answer.status).into());
                }
                open.push(client);
            }
            thread::sleep(Duration::from_millis(500));
            at.push(server.memory()?);
        }
        let each = at[1].saturating_sub(at[0]) / (steps[1] - steps[0]).max(1);
        let verdict = if each <= MAX_BYTES_PER_CONNECTION { "within" } else { "beyond" };
        println!(
            "{driver}: {} KiB with {} idle connections, {} KiB with {}: {each} bytes for each, {verdict} {MAX_BYTES_PER_CONNECTION}",
            at[0] >> 10,
            steps[0],
            at[1] >> 10,
            steps[1],
        );
        Ok(each <= MAX_BYTES_PER_CONNECTION)
    })
}
