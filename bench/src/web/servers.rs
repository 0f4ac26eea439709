//! Selection of the servers to measure.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Command;

use super::certificate::Certificate;
use super::demands::Demands;
use super::peers::PEERS;
use super::server::Recipe;
use super::site::Site;

/// Versions of the peers; `None` if not installed.
pub(crate) type Versions = BTreeMap<&'static str, Option<String>>;

/// The selected servers and their parameters.
pub(crate) struct Selection<'a> {
    /// Selects servers by name.
    pub(crate) wants: &'a dyn Fn(&str) -> bool,
    /// Additional arguments of `phalanx web`.
    pub(crate) arguments: &'a [&'a str],
    pub(crate) phalanx: &'a Path,
    /// Folder for configuration files.
    pub(crate) directory: &'a Path,
    pub(crate) site: &'a Site,
    /// The certificate, if TLS is required.
    pub(crate) certificate: Option<&'a Certificate>,
    /// Required features. Servers without them are left out.
    pub(crate) demands: Demands,
}

impl Selection<'_> {
    /// The selected and available servers, and the peers' versions.
    ///
    /// # Errors
    /// When a configuration file cannot be written.
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
                    eprintln!("{} is not installed and is skipped; {}", peer.name(), peer.install);
                }
                None => (),
            }
        }
        recipes.retain(|recipe| wants(&recipe.name) && recipe.demands == demands);
        // Without io_uring its driver cannot be measured.
        if let Err(error) = phalanx_driver::choose(phalanx::runtime::DriverChoice::Uring) {
            eprintln!("skipping the uring driver: {error}");
            recipes.retain(|recipe| recipe.driver != Some("uring"));
        }
        Ok((recipes, versions))
    }
}

/// The better available driver, and the name of `phalanx web` on it.
pub(crate) fn ours() -> (&'static str, String) {
    let ring = phalanx_driver::choose(phalanx::runtime::DriverChoice::Uring).is_ok();
    let driver = if ring { "uring" } else { "poll" };
    (driver, format!("phalanx-{driver}"))
}

/// `phalanx web` with one worker and additional arguments.
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

/// Adds the required features to `phalanx web`.
fn logging(mut web: Recipe, directory: &Path, demands: Demands) -> Recipe {
    if demands.log {
        let log = directory.join(format!("{}.access.log", web.name));
        web.command.arg("--set").arg(format!("access-log.target = '{}'", log.display()));
    }
    // It supports HTTP/2 wherever it supports TLS.
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
