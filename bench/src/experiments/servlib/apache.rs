//! Apache with its worker MPM: one process with a thread per connection, as in the slides.

use std::io;
use std::path::{Path, PathBuf};

/// Files by name, and requests of a slice.
pub(super) const FILES: [(&str, usize); 4] =
    [("1KiB", 8000), ("16KiB", 8000), ("128KiB", 3200), ("1MiB", 640)];

/// Folders of Apache's modules.
const MODULES: [&str; 3] =
    ["/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/libexec/apache2"];

/// Writes the configuration of a server on `port` and the files that it serves. Returns the configuration's path.
pub(super) fn configure(directory: &Path, port: u16) -> io::Result<PathBuf> {
    let home = directory.join(format!("apache-{port}"));
    let files = home.join("files");
    std::fs::create_dir_all(&files)?;
    for (name, _) in FILES {
        std::fs::write(files.join(name), vec![b'f'; size(name)])?;
    }
    let modules = MODULES.into_iter().find(|folder| Path::new(folder).is_dir());
    let modules = modules.ok_or_else(|| io::Error::other("Apache's modules are not installed"))?;
    let home = home.display();
    // Its children change to this user if it is started by root; the user may read the files.
    let user = match rustix::process::geteuid().is_root() {
        true => "User #65534\nGroup #65534\n",
        false => "",
    };
    // Each response must have the same length, but the entity tag of a file that was just written is longer.
    let text = format!(
        "LoadModule mpm_worker_module {modules}/mod_mpm_worker.so\n\
         LoadModule authz_core_module {modules}/mod_authz_core.so\n\
         Listen 127.0.0.1:{port}\nServerName bench\n{user}\
         ServerRoot {home}\nPidFile {home}/pid\nErrorLog {home}/error\nDefaultRuntimeDir {home}\n\
         DocumentRoot {home}/files\nFileETag None\nMutex pthread\n\
         StartServers 1\nServerLimit 1\nThreadLimit 64\nThreadsPerChild 64\nMaxRequestWorkers 64\n\
         MinSpareThreads 1\nMaxSpareThreads 64\nMaxConnectionsPerChild 0\n\
         KeepAlive On\nMaxKeepAliveRequests 0\nKeepAliveTimeout 600\nTimeout 600\n"
    );
    let path = directory.join(format!("apache-{port}.conf"));
    std::fs::write(&path, text)?;
    Ok(path)
}

/// The number of bytes of a file, from its name.
fn size(name: &str) -> usize {
    let digits = name.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(name.len());
    let number: usize = name[..digits].parse().expect("a number");
    number << if name.ends_with("MiB") { 20 } else { 10 }
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_sizes() {
        assert_eq!(["1KiB", "128KiB", "1MiB"].map(super::size), [1 << 10, 128 << 10, 1 << 20]);
    }
}
