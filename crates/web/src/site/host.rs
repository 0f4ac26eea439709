//! A compiled host: its root and its rules.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use phalanx::fs::Dir;
use phalanx_tls::{CertificateError, Connector};

use crate::auth::files;
use crate::auth::passwords::Passwords;
use crate::config::{Config, HostConfig, Proxy};
use crate::error::ServeError;
use crate::site::rules::Rules;
use crate::upstream::{Group, Trust};

/// Distinguishes files of different hosts in the cache. A host whose rules change at a reload gets a new id,
/// because cached entries depend on its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HostId(pub(crate) u32);

/// An open directory.
struct Folder {
    dir: Dir,
    /// Device and inode, if known.
    place: Option<(u64, u64)>,
}

impl Folder {
    fn open(path: &Path) -> Result<Self, ServeError> {
        let dir =
            Dir::open(path).map_err(|source| ServeError::Root { path: path.into(), source })?;
        let place = std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        Ok(Self { dir, place })
    }

    fn is(&self, other: &Self) -> bool {
        self.place.is_some() && self.place == other.place
    }
}

/// The files of a host: its root directory, those of its aliases, and its password files.
pub(crate) struct Root {
    folder: Folder,
    /// In the order of the configuration.
    aliases: Vec<Folder>,
    passwords: Vec<Arc<Passwords>>,
    /// One for each rule of the reverse proxy, in order.
    trusts: Vec<Option<Trust>>,
}

impl Root {
    /// Opens the files of all hosts, in order. May block.
    pub(crate) fn open_all(config: &Config) -> Result<Vec<Self>, ServeError> {
        config.hosts.iter().map(Self::open).collect()
    }

    /// Opens the files of a host. May block.
    pub(crate) fn open(host: &HostConfig) -> Result<Self, ServeError> {
        let aliases = host.aliases.iter().map(|alias| Folder::open(&alias.root));
        Ok(Self {
            folder: Folder::open(&host.root)?,
            aliases: aliases.collect::<Result<_, _>>()?,
            passwords: files::open(host)?,
            trusts: host.proxies.iter().map(trust).collect::<Result<_, _>>()?,
        })
    }
}

impl From<Dir> for Root {
    fn from(dir: Dir) -> Self {
        let folder = Folder { dir, place: None };
        Self { folder, aliases: Vec::new(), passwords: Vec::new(), trusts: Vec::new() }
    }
}

/// Loads the authorities of servers with TLS. May block.
fn trust(proxy: &Proxy) -> Result<Option<Trust>, CertificateError> {
    let load = || {
        let path = proxy.authorities.as_deref();
        // Read before the authorities are loaded, so that the next reload notices a change between the two. Loading
        // them reports errors.
        let authorities = path.and_then(|path| std::fs::read(path).ok());
        let connector = Connector::load(path, None, &[])?;
        Ok(Trust { connector, authorities })
    };
    proxy.to.iter().any(|server| server.is_tls).then(load).transpose()
}

/// A host in compiled form.
pub(crate) struct Host {
    pub(crate) id: HostId,
    /// The root directory, and those of aliases. All files are opened below them.
    root: Folder,
    aliases: Vec<Folder>,
    /// Configuration of the host.
    pub(crate) config: HostConfig,
    pub(crate) rules: Rules,
    /// In the order of the rules that require passwords.
    pub(crate) passwords: Vec<Arc<Passwords>>,
    /// In the order of the rules of the reverse proxy.
    pub(crate) upstreams: Vec<Arc<Group>>,
}

impl Host {
    /// Compiles a host whose configuration was checked. Takes unchanged groups of servers from `old`, with their health
    /// and connections.
    ///
    /// # Panics
    /// If the configuration contains an error.
    pub(crate) fn new(
        id: HostId,
        config: HostConfig,
        root: Root,
        (workers, old): (usize, &mut Vec<Arc<Group>>),
    ) -> Self {
        let Ok(rules) = Rules::new(&config) else { panic!("the rules of a host were not checked") };
        let Root { folder: root, aliases, passwords, trusts } = root;
        assert_eq!(config.auth.len(), passwords.len(), "one password file for each rule");
        assert_eq!(config.aliases.len(), aliases.len(), "one directory for each alias");
        let trusts = trusts.into_iter().chain(std::iter::repeat_with(|| None));
        let group = |(rule, trust): (&Proxy, Option<Trust>)| match old
            .iter()
            .position(|group| group.is(rule, trust.as_ref()))
        {
            Some(same) => old.remove(same),
            None => Group::new(rule, workers, trust),
        };
        let upstreams = config.proxies.iter().zip(trusts).map(group).collect();
        Self { id, root, aliases, config, rules, passwords, upstreams }
    }

    /// Whether requests for a resolved path are forwarded to other servers.
    pub(crate) fn is_passed_on(&self, resolved: &[u8]) -> bool {
        self.upstreams.iter().any(|group| group.covers(resolved))
    }

    /// The directory in which `path` is found, and its path there.
    pub(crate) fn locate<'p>(&self, path: &'p [u8]) -> (&Dir, &'p [u8]) {
        let (folder, path) = match self.config.alias(path) {
            Some((number, rest)) => (&self.aliases[number], rest),
            None => (&self.root, path),
        };
        // An empty path cannot be opened; the directory itself is `.`.
        (&folder.dir, if path.is_empty() { b"." } else { path })
    }

    /// Whether the groups use the same authorities as `root`.
    fn has_groups(&self, root: &Root) -> bool {
        let trusts = root.trusts.iter().map(Option::as_ref);
        self.upstreams.iter().zip(trusts).all(|(group, trust)| group.is(&group.rule, trust))
    }

    /// Whether this host equals one compiled from `config` and `root`. If the path of the root now leads to another
    /// directory, the hosts differ.
    pub(crate) fn is(&self, config: &HostConfig, root: &Root) -> bool {
        let own = self.passwords.iter();
        self.config == *config
            && self.has_groups(root)
            && self.root.is(&root.folder)
            && self.aliases.iter().zip(&root.aliases).all(|(alias, other)| alias.is(other))
            && own.zip(&root.passwords).all(|(passwords, other)| passwords.is_same(other))
    }
}
