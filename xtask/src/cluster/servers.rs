//! The NATS servers of a cluster: one, or several that elect leaders of their streams.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::nodes::{Process, free};
use crate::task::find;

/// Starts `count` servers in `folder`, with JetStream if they keep `sessions`.
pub(super) fn start(
    host: IpAddr,
    folder: &Path,
    count: usize,
    sessions: bool,
) -> Result<Vec<Process>, String> {
    let program = nats_server()?;
    let addresses = |_| Ok((free(host)?, free(host)?));
    let addresses = (0..count).map(addresses).collect::<Result<Vec<_>, String>>()?;
    let routes: Vec<_> = addresses.iter().map(|(_, route)| format!("nats://{route}")).collect();
    let routes = (count > 1).then(|| routes.join(","));
    let server = |(n, (address, route)): (usize, &(SocketAddr, SocketAddr))| {
        let (program, routes, address, route) = (program.clone(), routes.clone(), *address, *route);
        let name = format!("nats-{}", n + 1);
        let (log, data) = (folder.join(format!("{name}.log")), folder.join(&name));
        Process::new(address, move || {
            let mut command = Command::new(&program);
            command.args(["-a", &address.ip().to_string(), "-p", &address.port().to_string()]);
            command.arg("-l").arg(&log);
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
