//! Who takes part.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::config;
use super::server::{Recipe, ReservedPort};
use super::site::Site;

/// Another's server.
pub(crate) struct Peer {
    name: &'static str,
    /// Where it may be beside the search path, since not every user has these in it.
    folders: &'static [&'static str],
    install: &'static str,
}

const PEERS: [Peer; 2] = [
    Peer { name: "nginx", folders: SBIN, install: "apt-get install nginx-light" },
    Peer { name: "lighttpd", folders: SBIN, install: "apt-get install lighttpd" },
];
const SBIN: &[&str] =
    &["/usr/sbin", "/usr/local/sbin", "/usr/local/nginx/sbin", "/opt/homebrew/bin"];

/// Which versions of the peers are here.
pub(crate) type Versions = BTreeMap<&'static str, Option<String>>;

/// Everybody who is wanted and here, and the peers' versions. `arguments` are more of them for
/// `phalanx web`.
///
/// # Errors
/// When configurations cannot be written.
pub(crate) fn lineup(
    wants: &dyn Fn(&str) -> bool,
    arguments: &[&str],
    phalanx: &Path,
    directory: &Path,
    site: &Site,
) -> io::Result<(Vec<Recipe>, Versions)> {
    let mut recipes = Vec::new();
    let mut versions = Versions::new();
    for driver in ["uring", "poll"] {
        let mut web = Command::new(phalanx);
        web.arg("web").arg(&site.root).args(["--listen", "127.0.0.1:0", "--processors", "1"]);
        web.args(["--driver", driver]).args(arguments);
        recipes.push(own("phalanx", Some(driver), true, web));
        let mut floor = Command::new(phalanx);
        floor.args(["bench", "floor-server", "--driver", driver]);
        recipes.push(own("floor", Some(driver), false, floor));
    }
    let mut twin = Command::new(phalanx);
    twin.args(["bench", "twin-server"]).arg(&site.root);
    recipes.push(own("twin", None, true, twin));
    for peer in &PEERS {
        let path = find(peer);
        versions.insert(peer.name, path.as_deref().and_then(version));
        match path {
            Some(path) => recipes.extend(peer.recipes(&path, directory, site)?),
            None if wants(peer.name) => {
                eprintln!("{} is not installed and left out; {}", peer.name, peer.install);
            }
            None => (),
        }
    }
    recipes.retain(|recipe| wants(&recipe.name));
    // Without a ring there is nothing to measure it with.
    if let Err(error) = phalanx_driver::choose(phalanx::Choice::Uring) {
        eprintln!("the uring driver is left out: {error}");
        recipes.retain(|recipe| recipe.driver != Some("uring"));
    }
    Ok((recipes, versions))
}

fn own(
    server: &'static str,
    driver: Option<&'static str>,
    serves_files: bool,
    command: Command,
) -> Recipe {
    let name = driver.map_or(server.to_owned(), |driver| format!("{server}-{driver}"));
    Recipe { name, server, driver, command, port: None, serves_files }
}

impl Peer {
    fn recipes(&self, path: &Path, directory: &Path, site: &Site) -> io::Result<Vec<Recipe>> {
        let mut recipes = Vec::new();
        let mut add = |name: &str, server, port: ReservedPort, text: String, arguments: &[&str]| {
            let file = directory.join(format!("{name}.conf"));
            fs::write(&file, text)?;
            let mut command = Command::new(path);
            command.args(arguments).arg(file);
            let name = name.to_owned();
            recipes.push(Recipe {
                name,
                server,
                driver: None,
                command,
                port: Some(port),
                serves_files: true,
            });
            io::Result::Ok(())
        };
        if self.name == "nginx" {
            let root_user = rustix::process::geteuid().is_root();
            for (name, sendfile) in [("nginx", true), ("nginx-nosf", false)] {
                let port = ReservedPort::take()?;
                let text = config::nginx(directory, &site.root, port.number(), sendfile, root_user);
                add(name, name, port, text, &["-c"])?;
            }
        } else {
            let port = ReservedPort::take()?;
            let text = config::lighttpd(directory, &site.root, port.number());
            add("lighttpd", "lighttpd", port, text, &["-D", "-f"])?;
        }
        Ok(recipes)
    }
}

fn find(peer: &Peer) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(peer.folders.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(peer.name)).find(|file| file.is_file())
}

/// What `-v` says, on whichever stream: its first word with a slash and a number in it.
fn version(path: &Path) -> Option<String> {
    let output = Command::new(path).arg("-v").output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    parse_version(&String::from_utf8_lossy(&text))
}

fn parse_version(text: &str) -> Option<String> {
    let after = |word: &str| word.split_once('/').map(|(_, version)| version.to_owned());
    let number = |version: &String| version.starts_with(|first: char| first.is_ascii_digit());
    text.split_whitespace().filter_map(after).find(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found() {
        assert_eq!(parse_version("nginx version: nginx/1.22.1\n"), Some("1.22.1".into()));
        let text = "lighttpd/1.4.69 (ssl) - a light and fast webserver\n";
        assert_eq!(parse_version(text), Some("1.4.69".into()));
        assert_eq!(parse_version("no/thing"), None);
    }
}
