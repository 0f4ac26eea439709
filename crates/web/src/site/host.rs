//! A compiled host: its root and its rules.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use phalanx::fs::Dir;

use crate::auth::files;
use crate::auth::passwords::Passwords;
use crate::config::{Config, HostConfig};
use crate::error::ServeError;
use crate::site::rules::Rules;

/// Distinguishes files of different hosts in the cache. A host whose rules change at a reload gets a new id,
/// because cached entries depend on its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HostId(pub(crate) u32);

/// The files of a host: its root directory and its password files.
pub(crate) struct Root {
    dir: Dir,
    passwords: Vec<Arc<Passwords>>,
    /// Device and inode of the root, if known.
    place: Option<(u64, u64)>,
}

impl Root {
    /// Opens the files of all hosts, in order. May block.
    pub(crate) fn open_all(config: &Config) -> Result<Vec<Self>, ServeError> {
        config.hosts.iter().map(Self::open).collect()
    }

    /// Opens the files of a host. May block.
    pub(crate) fn open(host: &HostConfig) -> Result<Self, ServeError> {
        let path = &host.root;
        let dir =
            Dir::open(path).map_err(|source| ServeError::Root { path: path.clone(), source })?;
        let place = std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        Ok(Self { dir, passwords: files::open(host)?, place })
    }
}

impl From<Dir> for Root {
    fn from(dir: Dir) -> Self {
        Self { dir, passwords: Vec::new(), place: None }
    }
}

/// A host in compiled form.
pub(crate) struct Host {
    pub(crate) id: HostId,
    /// The root directory, below which all files are opened.
    pub(crate) root: Dir,
    /// Configuration of the host.
    pub(crate) config: HostConfig,
    pub(crate) rules: Rules,
    /// In the order of the rules that require passwords.
    pub(crate) passwords: Vec<Arc<Passwords>>,
    place: Option<(u64, u64)>,
}

impl Host {
    /// Compiles a host whose configuration was checked.
    ///
    /// # Panics
    /// If the configuration contains an error.
    pub(crate) fn new(id: HostId, config: HostConfig, root: Root) -> Self {
        let Ok(rules) = Rules::new(&config) else { panic!("the rules of a host were not checked") };
        let Root { dir, passwords, place } = root;
        assert_eq!(config.auth.len(), passwords.len(), "one password file for each rule");
        Self { id, root: dir, config, rules, passwords, place }
    }

    /// Whether this host equals one compiled from `config` and `root`. A path that now leads to another
    /// directory is another root.
    pub(crate) fn is(&self, config: &HostConfig, root: &Root) -> bool {
        let own = self.passwords.iter();
        self.config == *config
            && self.place.is_some()
            && self.place == root.place
            && own.zip(&root.passwords).all(|(own, other)| own.is_same(other))
    }
}
