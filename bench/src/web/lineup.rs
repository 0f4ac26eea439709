//! Who takes part.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Command;

use super::peers::PEERS;
use super::server::Recipe;
use super::site::Site;

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
        recipes.push(web(phalanx, site, driver, arguments));
        let mut floor = Command::new(phalanx);
        floor.args(["bench", "floor-server", "--driver", driver]);
        recipes.push(own("floor", Some(driver), false, floor));
    }
    let mut twin = Command::new(phalanx);
    twin.args(["bench", "twin-server"]).arg(&site.root);
    recipes.push(own("twin", None, true, twin));
    for peer in &PEERS {
        let path = peer.find();
        versions.insert(peer.name(), path.as_deref().and_then(|path| peer.version(path)));
        match path {
            Some(path) => recipes.extend(peer.recipes(&path, directory, &site.root)?),
            None if wants(peer.name()) => {
                eprintln!("{} is not installed and left out; {}", peer.name(), peer.install);
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

/// The better driver that there is here, and the name of `phalanx web` on it.
pub(crate) fn ours() -> (&'static str, String) {
    let ring = phalanx_driver::choose(phalanx::Choice::Uring).is_ok();
    let driver = if ring { "uring" } else { "poll" };
    (driver, format!("phalanx-{driver}"))
}

/// `phalanx web` on one processor, with more arguments.
pub(crate) fn web(phalanx: &Path, site: &Site, driver: &'static str, arguments: &[&str]) -> Recipe {
    let mut web = Command::new(phalanx);
    web.arg("web").arg(&site.root).args(["--listen", "127.0.0.1:0", "--processors", "1"]);
    web.args(["--driver", driver]).args(arguments);
    own("phalanx", Some(driver), true, web)
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
