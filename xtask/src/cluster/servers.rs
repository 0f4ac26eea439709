//! The NATS servers of a cluster: one, or several that elect leaders of their streams.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use super::machines::Machine;
use super::nodes::{Process, free};
use crate::task::find;

/// The deadline for writes of `packaging/nats/nats-server.conf`: servers wait that long for one that is cut off.
const CONFIGURATION: &str = "write_deadline: \"5s\"\n";

/// Starts `count` servers in `folder`, in turn on each of `machines`, with JetStream if they keep `sessions`.
pub(super) fn start(
    machines: &[Arc<Machine>],
    folder: &Path,
    count: usize,
    sessions: bool,
) -> Result<Vec<Process>, String> {
    let program = nats_server()?;
    let configuration = folder.join("nats.conf");
    fs::write(&configuration, CONFIGURATION)
        .map_err(|error| format!("{}: {error}", configuration.display()))?;
    let machine = |n: usize| &machines[n % machines.len()];
    let addresses = |n| {
        let server_machine = machine(n);
        Ok((
            free(server_machine, server_machine.inner)?,
            free(server_machine, server_machine.inner)?,
        ))
    };
    let addresses = (0..count).map(addresses).collect::<Result<Vec<_>, String>>()?;
    let routes: Vec<_> = addresses.iter().map(|(_, route)| format!("nats://{route}")).collect();
    let routes = (count > 1).then(|| routes.join(","));
    let server = |(n, (address, route)): (usize, &(SocketAddr, SocketAddr))| {
        let (program, routes, address, route) = (program.clone(), routes.clone(), *address, *route);
        let name = format!("nats-{}", n + 1);
        let configuration = configuration.clone();
        let (log, data) = (folder.join(format!("{name}.log")), folder.join(&name));
        Process::new(machine(n), address, move || {
            let mut command = Command::new(&program);
            command.args(["-a", &address.ip().to_string(), "-p", &address.port().to_string()]);
            command.arg("-l").arg(&log).arg("-c").arg(&configuration);
            if let Some(routes) = &routes {
                command.args(["-n", &name, "--cluster_name", "servers", "--routes", routes]);
                command.args(["--cluster", &format!("nats://{route}")]);
            }
            if sessions {
                command.arg("-js").arg("-sd").arg(&data);
            }
            command
        })
    };
    let servers: Vec<_> = addresses.iter().enumerate().map(server).collect();
    servers.iter().try_for_each(Process::start)?;
    Ok(servers)
}

/// The path of nats-server.
fn nats_server() -> Result<PathBuf, String> {
    find("nats-server").ok_or_else(|| {
        "nats-server is not installed (Debian: apt-get install nats-server)".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deadline_is_that_of_the_packaged_configuration() {
        let packaged = include_str!("../../../packaging/nats/nats-server.conf");
        assert!(packaged.contains(&format!("\n{CONFIGURATION}")), "{CONFIGURATION}");
    }
}
