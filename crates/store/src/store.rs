//! Opening a store, and looking at one.

use std::fmt;
use std::fs::{File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use phalanx::Graph;
use phalanx::fs::Dir;

use crate::error::{OpenError, Torn};
use crate::index::Counts;
use crate::journal::Journal;
use crate::options::Options;
use crate::recovered::Recovered;
use crate::replay::replay;
use crate::source::{Directory, Source, remove};
use crate::writer::Writer;

/// The file whose lock says that a directory is in use. It is empty.
const LOCK: &str = "lock";

/// A store that was opened and is not at work yet.
pub struct Store {
    writer: Writer,
}

impl Store {
    /// Opens the store in a directory, which is made if it is not there, and has what was in it
    /// recovered. No other process can open it until this one has gone. May block, for about a second
    /// for each gigabyte: it is for the start of a program.
    ///
    /// ```
    /// # let home = tempfile::tempdir().unwrap();
    /// # let directory = home.path();
    /// use phalanx::{Graph, Runtime};
    /// use phalanx_store::{Entry, Options, Record, SessionId, Store};
    ///
    /// let (store, recovered) = Store::open(directory, Options::default())?;
    /// assert!(recovered.sessions.is_empty());
    /// let mut graph = Graph::new();
    /// let clients = graph.shared("clients", ());
    /// let journal = store.declare(&mut graph);
    ///
    /// Runtime::new().processors(1).run(graph, move |start| {
    ///     let (control, journal) = (start.control(), journal.clone());
    ///     clients.dispatch(move |_| async move {
    ///         let mut entry = Entry::new();
    ///         let (session, client) = (SessionId(1), "meter-7");
    ///         entry.push(&Record::Session { session, client, expiry: 3600, left: 0, will: &[] });
    ///         journal.append(entry).await.expect("the disk takes it"); // now it may be said
    ///         control.drain();
    ///     })?;
    ///     Ok(())
    /// })?;
    ///
    /// let (_, recovered) = Store::open(directory, Options::default())?;
    /// assert_eq!(recovered.sessions[&SessionId(1)].client, "meter-7");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong, with which file, and what to do.
    pub fn open(path: &Path, options: Options) -> Result<(Self, Recovered), OpenError> {
        let tried = |what| move |source| OpenError::Io { what, path: path.into(), source };
        std::fs::create_dir_all(path).map_err(tried("make"))?;
        let lock = lock(path)?;
        let directory = Dir::open(path).map_err(tried("open"))?;
        let source = Directory(path.into());
        let (replay, recovered) = replay(&source, path)?;
        replay.leftovers.iter().for_each(|number| remove(path, *number));
        let salt = options.salt.unwrap_or_else(|| RandomState::new().hash_one(std::process::id()));
        let writer = Writer::new(directory, Some(lock), options, salt, replay);
        Ok((Self { writer }, recovered))
    }

    /// As [`open`](Self::open), from what a test has, and on a directory that may be simulated; `path`
    /// is what errors name. Nothing is locked or removed.
    ///
    /// # Errors
    /// As there.
    pub fn open_in(
        source: &dyn Source,
        directory: Dir,
        path: &Path,
        options: Options,
    ) -> Result<(Self, Recovered), OpenError> {
        let (replay, recovered) = replay(source, path)?;
        let writer = Writer::new(directory, None, options, options.salt.unwrap_or(0), replay);
        Ok((Self { writer }, recovered))
    }

    /// Declares the stages that keep what is appended to the [`Journal`]. It is at work with the
    /// program that is made of `graph`, and closed with it.
    pub fn declare(self, graph: &mut Graph) -> Journal {
        Journal::declare(graph, self.writer)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("extent", &self.writer.extent()).finish_non_exhaustive()
    }
}

/// What there is in a store that nobody works on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// The directory.
    pub path: PathBuf,
    /// Files of the journal.
    pub segments: u64,
    /// Bytes of them that count.
    pub bytes: u64,
    /// Of these, bytes of what is alive.
    pub live: u64,
    /// What is alive.
    pub counts: Counts,
    /// What a crash has left unfinished.
    pub torn: Option<Torn>,
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, segments, bytes, live, counts, torn } = self;
        let Counts { sessions, subscriptions, messages, retained, queued } = counts;
        writeln!(f, "{}: {segments} segments of {bytes} bytes, {live} alive", path.display())?;
        writeln!(
            f,
            "{sessions} sessions, {subscriptions} subscriptions, {messages} messages, {queued} times \
             queued, {retained} retained"
        )?;
        match torn {
            Some(torn) => writeln!(f, "{torn}"),
            None => Ok(()),
        }
    }
}

/// Reads a whole store and gives what is in it, and changes nothing. May block, as
/// [`Store::open`].
///
/// # Errors
/// As there; also when the directory is not there.
pub fn check(path: &Path) -> Result<(Checked, Recovered), OpenError> {
    let source = Directory(path.into());
    let names = source.names();
    names.map_err(|source| OpenError::Io { what: "list", path: path.into(), source })?;
    let _lock = lock(path)?;
    let (replay, recovered) = replay(&source, path)?;
    let checked = Checked {
        path: path.into(),
        segments: replay.segments.len() as u64,
        bytes: replay.segments.iter().map(|segment| segment.end).sum(),
        live: replay.index.live(),
        counts: replay.index.counts(),
        torn: recovered.torn.clone(),
    };
    Ok((checked, recovered))
}

/// Reads what `source` has and gives it back, as [`Store::open`] would; `path` is what errors name.
///
/// # Errors
/// As there.
pub fn recover(source: &dyn Source, path: &Path) -> Result<Recovered, OpenError> {
    replay(source, path).map(|(_, recovered)| recovered)
}

/// Locks a directory until the file is closed.
fn lock(path: &Path) -> Result<File, OpenError> {
    let file = path.join(LOCK);
    let tried = |source: io::Error| OpenError::Io { what: "lock", path: file.clone(), source };
    let lock = File::options().create(true).append(true).open(&file).map_err(tried)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.into() }),
        Err(TryLockError::Error(error)) => Err(tried(error)),
    }
}
