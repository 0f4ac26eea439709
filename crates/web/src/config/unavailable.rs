//! What a configuration names and the machine has not: for `phalanx web --check`, before anybody is served.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use phalanx_tls::{check, warnings};

use crate::auth::files;
use crate::config::{Config, HostConfig, LogTarget, Symlinks, Tls};
use crate::site::Root;

impl Config {
    /// What this configuration names and cannot be had: directories, error pages, fallbacks, certificates,
    /// files of passwords, the access log's directory. One line each, empty if all is there. Opens what is
    /// looked for, and changes nothing.
    pub fn unavailable(&self) -> Vec<String> {
        let mut missing: Vec<String> = self.hosts.iter().flat_map(of_host).collect();
        if let Some(LogTarget::File(path)) = self.access_log.as_ref().map(|log| &log.target) {
            // The file itself is made where there is none.
            let directory = match path.parent() {
                Some(parent) if parent != Path::new("") => parent,
                _ => Path::new("."),
            };
            if let Err(error) = fs::read_dir(directory) {
                missing.push(format!("cannot write the access log {}: {error}", path.display()));
            }
        }
        missing
    }

    /// What somebody should know of the certificates and passwords that this configuration names, one line
    /// each: that a certificate expires soon, or is not for a name of its host. Says nothing of those that
    /// cannot be used, which are [`unavailable`](Self::unavailable).
    pub fn warnings(&self) -> Vec<String> {
        let of = |host: &HostConfig| {
            let Tls { certificate, key } = host.tls.as_ref()?;
            Some(warnings(certificate, key, &host.server_names, SystemTime::now()))
        };
        let mut warnings: Vec<String> = self.hosts.iter().filter_map(of).flatten().collect();
        warnings.extend(files::warnings(self));
        warnings
    }
}

fn of_host(host: &HostConfig) -> Vec<String> {
    let mut missing = Vec::new();
    // The directory, and the files of passwords.
    match Root::open(host) {
        Err(error) => missing.extend(error.to_string().lines().map(str::to_owned)),
        Ok(_) => {
            let pages =
                host.error_pages.iter().map(|(status, page)| (format!("page for {status}"), page));
            let fallback = host.fallback.iter().map(|page| ("fallback".to_owned(), page));
            for (what, page) in pages.chain(fallback) {
                if let Err(why) = servable(host, page) {
                    let root = host.root.display();
                    missing.push(format!("the {what}, {page} in {root}, cannot be shown: {why}"));
                }
            }
        }
    }
    if let Some(Tls { certificate, key }) = &host.tls
        && let Err(error) = check(certificate, key)
    {
        missing.push(error.to_string());
    }
    missing
}

/// Whether a path beneath a host's root leads to a file that the host shows.
fn servable(host: &HostConfig, page: &str) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let root = fs::canonicalize(&host.root).map_err(text)?;
    let named: PathBuf = root.join(page.trim_start_matches('/'));
    let found = fs::canonicalize(&named).map_err(text)?;
    if !found.starts_with(&root) {
        return Err("it leads out of there".to_owned());
    }
    if found != named && host.symlinks == Symlinks::Deny {
        return Err("a symbolic link leads there, and `symlinks` follows none".to_owned());
    }
    let file = File::open(&found).map_err(text)?;
    match file.metadata().map_err(text)?.is_file() {
        true => Ok(()),
        false => Err("it is no file".to_owned()),
    }
}
