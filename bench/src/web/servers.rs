//! Who takes part.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Command;

use super::certificate::Certificate;
use super::demands::Demands;
use super::peers::PEERS;
use super::server::Recipe;
use super::site::Site;

/// Which versions of the peers are here.
pub(crate) type Versions = BTreeMap<&'static str, Option<String>>;

/// Who is to take part, and with what.
pub(crate) struct Selection<'a> {
    /// Which servers, by name.
    pub(crate) wants: &'a dyn Fn(&str) -> bool,
    /// More arguments for `phalanx web`.
    pub(crate) arguments: &'a [&'a str],
    pub(crate) phalanx: &'a Path,
    /// For configurations.
    pub(crate) directory: &'a Path,
    pub(crate) site: &'a Site,
    /// For TLS, where that is demanded.
    pub(crate) certificate: Option<&'a Certificate>,
    /// Only those who can do all of it, and with it.
    pub(crate) demands: Demands,
}

impl Selection<'_> {
    /// Everybody who is wanted and here, and the peers' versions.
    ///
    /// # Errors
    /// When configurations cannot be written.
    pub(crate) fn recipes(&self) -> io::Result<(Vec<Recipe>, Versions)> {
        let Self { wants, phalanx, site, certificate, demands, .. } = *self;
        let mut recipes = Vec::new();
        let mut versions = Versions::new();
        for driver in ["uring", "poll"] {
            let web = web(phalanx, site, driver, self.arguments, certificate);
            recipes.push(logging(web, self.directory, demands));
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
                Some(path) => {
                    recipes.extend(peer.recipes(
                        &path,
                        self.directory,
                        &site.root,
                        certificate,
                        demands,
                    )?);
                }
                None if wants(peer.name()) => {
                    eprintln!("{} is not installed and left out; {}", peer.name(), peer.install);
                }
                None => (),
            }
        }
        recipes.retain(|recipe| wants(&recipe.name) && recipe.demands == demands);
        // Without a ring there is nothing to measure it with.
        if let Err(error) = phalanx_driver::choose(phalanx::runtime::DriverChoice::Uring) {
            eprintln!("the uring driver is left out: {error}");
            recipes.retain(|recipe| recipe.driver != Some("uring"));
        }
        Ok((recipes, versions))
    }
}

/// The better driver that there is here, and the name of `phalanx web` on it.
pub(crate) fn ours() -> (&'static str, String) {
    let ring = phalanx_driver::choose(phalanx::runtime::DriverChoice::Uring).is_ok();
    let driver = if ring { "uring" } else { "poll" };
    (driver, format!("phalanx-{driver}"))
}

/// `phalanx web` on one processor, with more arguments.
pub(crate) fn web(
    phalanx: &Path,
    site: &Site,
    driver: &'static str,
    arguments: &[&str],
    certificate: Option<&Certificate>,
) -> Recipe {
    let mut web = Command::new(phalanx);
    web.arg("web").arg(&site.root).args(["--listen", "127.0.0.1:0", "--workers", "1"]);
    web.args(["--driver", driver]).args(arguments);
    if let Some(Certificate { chain, key }) = certificate {
        web.arg("--tls-certificate").arg(chain).arg("--tls-key").arg(key);
    }
    let demands = Demands { tls: certificate.is_some(), ..Demands::NONE };
    Recipe { demands, ..own("phalanx", Some(driver), true, web) }
}

/// The same, doing what else is demanded.
fn logging(mut web: Recipe, directory: &Path, demands: Demands) -> Recipe {
    if demands.log {
        let log = directory.join(format!("{}.access.log", web.name));
        web.command.arg("--set").arg(format!("access-log.target = '{}'", log.display()));
    }
    // It speaks HTTP/2 wherever it speaks TLS.
    Recipe { demands, ..web }
}

fn own(
    server: &'static str,
    driver: Option<&'static str>,
    serves_files: bool,
    command: Command,
) -> Recipe {
    let name = driver.map_or(server.to_owned(), |driver| format!("{server}-{driver}"));
    Recipe { name, server, driver, command, port: None, serves_files, demands: Demands::NONE }
}
