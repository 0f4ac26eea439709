//! Checks that the files of a configuration are available, for `phalanx web --check`.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use phalanx::fs::{Dir, FileKind};
use phalanx_acme::Plan;
use phalanx_tls::{TicketSecret, check, warnings};
use rustix::io::Errno;

use crate::auth::files;
use crate::config::{Config, HostConfig, LogTarget, Symlinks, Tls};
use crate::site::Root;

impl Config {
    /// Returns one line for each unavailable directory, error page, fallback, certificate, ticket key, password
    /// file or access log directory of this configuration. Opens files but changes nothing.
    pub fn unavailable(&self) -> Vec<String> {
        let mut errors: Vec<String> = self.hosts.iter().flat_map(host_errors).collect();
        for log in self.access_logs() {
            let LogTarget::File(path) = &log.target else { continue };
            // Only the directory must exist, because the server creates the file.
            let directory = match path.parent() {
                Some(parent) if parent != Path::new("") => parent,
                _ => Path::new("."),
            };
            if let Err(error) = fs::metadata(directory.join(".")) {
                errors.push(format!("cannot write the access log {}: {error}", path.display()));
            }
        }
        let secret = self.ticket_key.as_deref().map(TicketSecret::load);
        errors.extend(secret.and_then(Result::err).map(|error| error.to_string()));
        errors.extend(self.plan().iter().flat_map(Plan::unavailable));
        errors
    }

    /// The next step of each certificate that comes from an ACME authority, one line each. May block.
    pub fn steps(&self) -> Vec<String> {
        self.plan().map_or_else(Vec::new, |plan| plan.steps(SystemTime::now()))
    }

    /// Warnings about the certificates and passwords of this configuration, one line each: for example, that
    /// a certificate expires soon or does not cover a name of its host. Unusable files are reported by
    /// [`unavailable`](Self::unavailable) instead.
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

fn host_errors(host: &HostConfig) -> Vec<String> {
    let mut errors = Vec::new();
    // Opens the root directory and the password files.
    match Root::open(host) {
        Err(error) => errors.extend(error.to_string().lines().map(str::to_owned)),
        Ok(_) => {
            let pages =
                host.error_pages.iter().map(|(status, page)| (format!("page for {status}"), page));
            let fallback = host.fallback.iter().map(|page| ("fallback".to_owned(), page));
            let try_files = host.try_files.iter().flat_map(|rule| &rule.files);
            let try_files = try_files.filter(|file| !file.contains('$'));
            let try_files = try_files.map(|page| ("file of try-files".to_owned(), page));
            for (what, page) in pages.chain(fallback).chain(try_files) {
                if let Err(reason) = check_page(host, page) {
                    let root = host.root.display();
                    errors.push(format!("cannot serve the {what}, {page} in {root}: {reason}"));
                }
            }
        }
    }
    if let Some(Tls { certificate, key }) = &host.tls
        && let Err(error) = check(certificate, key)
    {
        errors.push(error.to_string());
    }
    errors
}

/// Whether a path below a host's root leads to a file that the host serves.
fn check_page(host: &HostConfig, page: &str) -> Result<(), String> {
    let page = page.trim_start_matches('/');
    let (root, rest) = match host.alias(page.as_bytes()) {
        Some((number, rest)) => (&host.aliases[number].root, &page[page.len() - rest.len()..]),
        None => (&host.root, page),
    };
    let open = || Dir::open(root)?.open_file_blocking(rest.as_bytes(), host.symlinks)?.metadata();
    let error = match open() {
        Ok(metadata) if metadata.kind == FileKind::File => return Ok(()),
        Ok(_) => return Err("it is not a file".to_owned()),
        Err(error) => error,
    };
    Err(match (Errno::from_io_error(&error), host.symlinks) {
        (Some(Errno::XDEV), _) => {
            "it is outside the root, or its path contains a symbolic link with an absolute target".to_owned()
        }
        (Some(Errno::LOOP), Symlinks::Deny) => {
            "its path contains a symbolic link, which `symlinks` denies".to_owned()
        }
        (Some(Errno::LOOP), Symlinks::OwnerMatches) => {
            "its path contains a symbolic link whose target has another owner; change the owner, or set symlinks = \"follow\""
                .to_owned()
        }
        _ => error.to_string(),
    })
}
