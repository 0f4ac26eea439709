//! Opening and checking stores.

use std::fmt;
use std::fs::{File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use phalanx::fs::Dir;
use phalanx::{Graph, SharedStage};

use crate::directory::names::{LOCK, POSITION, segment_name};
use crate::directory::private;
use crate::directory::source::{Directory, Source, remove};
use crate::error::{Lost, OpenError, Torn};
use crate::index::Counts;
use crate::journal::Journal;
use crate::mirror::MakeMirror;
use crate::options::Options;
use crate::recovery::position::Position;
use crate::recovery::recovered::Recovered;
use crate::recovery::replay::{Replay, replay};
use crate::write::writer::Writer;

/// An opened store that is not running yet.
pub struct Store {
    writer: Writer,
    warnings: Vec<String>,
}

impl Store {
    /// Opens the store in a directory, which is created if missing, and recovers its state. Other processes cannot open
    /// it until this one ends. Blocks for about a second per gigabyte, so call it at the program's start.
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
    ///         journal.append(entry).await.expect("the write succeeds"); // now acknowledge
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
    /// [`OpenError`] with the file and the remedy.
    pub fn open(path: &Path, options: Options) -> Result<(Self, Recovered), OpenError> {
        let tried = |action| move |source| OpenError::Io { action, path: path.into(), source };
        private::make_directory(path).map_err(tried("make"))?;
        let lock = lock(path)?;
        let directory = Dir::open(path).map_err(tried("open"))?;
        let source = Directory(path.into());
        let (replay, recovered) = read(&source, path, options.accept_loss)?;
        settle(&source, path, &replay)?;
        if options.accept_loss {
            // The position may be ahead of the accepted journal.
            let _ = std::fs::remove_file(path.join(POSITION));
        }
        let mut warnings =
            private::restrict_permissions(path).map_err(tried("check the permissions of"))?;
        warnings.extend(replay.headless().map(|number| {
            let file = path.join(segment_name(number));
            format!("{}: ignored; its header is incomplete, as after a crash", file.display())
        }));
        replay.leftovers.iter().for_each(|number| remove(path, *number));
        let salt = options.salt.unwrap_or_else(|| RandomState::new().hash_one(std::process::id()));
        let writer = Writer::new(directory, Some(lock), options, salt, replay);
        Ok((Self { writer, warnings }, recovered))
    }

    /// The number of journal files found.
    pub fn segments(&self) -> u64 {
        self.writer.extent().segments
    }

    /// Warnings about the directory, one line each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Like [`open`](Self::open), but from any source and in a directory that may be simulated; errors refer to
    /// `path`. Nothing is locked or deleted.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub fn open_in(
        source: &dyn Source,
        directory: Dir,
        path: &Path,
        options: Options,
    ) -> Result<(Self, Recovered), OpenError> {
        let (replay, recovered) = read(source, path, options.accept_loss)?;
        settle(source, path, &replay)?;
        let writer = Writer::new(directory, None, options, options.salt.unwrap_or(0), replay);
        Ok((Self { writer, warnings: Vec::new() }, recovered))
    }

    /// Declares the stages that store the entries appended to the [`Journal`]. The store runs as part of the program of
    /// `graph`.
    pub fn declare(self, graph: &mut Graph) -> Journal {
        self.declare_mirrored(graph, |_, _| None)
    }

    /// Like [`declare`](Self::declare), but with a [`Mirror`](crate::Mirror). `mirror` receives the graph and the stage
    /// of the mirror's operations, in order to declare what these call, and returns the function that creates the
    /// mirror.
    pub fn declare_mirrored(
        self,
        graph: &mut Graph,
        mirror: impl FnOnce(&mut Graph, SharedStage<()>) -> Option<MakeMirror>,
    ) -> Journal {
        Journal::declare(graph, self.writer, mirror)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("extent", &self.writer.extent()).finish_non_exhaustive()
    }
}

/// The contents of a store that is not in use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// The directory.
    pub path: PathBuf,
    /// The number of the journal's files.
    pub segments: u64,
    /// The size of their valid parts in bytes.
    pub bytes: u64,
    /// The size of the live records in bytes.
    pub live: u64,
    /// Numbers of live objects.
    pub counts: Counts,
    /// An unfinished write left by a crash.
    pub torn: Option<Torn>,
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, segments, bytes, live, counts, torn } = self;
        let Counts { sessions, subscriptions, messages, retained, queued } = counts;
        writeln!(f, "{}: {segments} segments, {bytes} bytes, {live} live", path.display())?;
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

/// Reads a whole store without changing it. Blocks like [`Store::open`].
///
/// # Errors
/// The errors of [`Store::open`]. A missing directory is an error, too.
pub fn check(path: &Path) -> Result<(Checked, Recovered), OpenError> {
    let source = Directory(path.into());
    let names = source.names();
    names.map_err(|source| OpenError::Io { action: "list", path: path.into(), source })?;
    let _lock = lock_to_read(path)?;
    let (replay, recovered) = read(&source, path, false)?;
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

/// Recovers the state from `source`, like [`Store::open`]. Errors refer to `path`.
///
/// # Errors
/// The errors of [`Store::open`].
pub fn recover(source: &dyn Source, path: &Path) -> Result<Recovered, OpenError> {
    read(source, path, false).map(|(_, recovered)| recovered)
}

/// Replays `source`, and checks that no acknowledged data is missing, or with `accept_loss` reports it as accepted.
fn read(
    source: &dyn Source,
    path: &Path,
    accept_loss: bool,
) -> Result<(Replay, Recovered), OpenError> {
    let (replay, mut recovered) = replay(source, path)?;
    let Some(position) = Position::read(source) else { return Ok((replay, recovered)) };
    match position.compare(&replay, path) {
        Some(lost) if !accept_loss => return Err(OpenError::Lost(lost)),
        Some(lost) => recovered.lost = Some(Lost { accepted: true, ..lost }),
        None => recovered.torn.iter_mut().for_each(|torn| torn.unacknowledged = true),
    }
    Ok((replay, recovered))
}

/// Writes the end of the journal to the disk again, before anything relies on it. If a process ended between a write
/// and its sync, or after a failed sync, that end is only in the page cache.
fn settle(source: &dyn Source, path: &Path, replay: &Replay) -> Result<(), OpenError> {
    let (Some(last), Some((at, bytes))) = (replay.segments.last(), &replay.tail) else {
        return Ok(());
    };
    let name = segment_name(last.number);
    let written = source.write_again(&name, *at, bytes);
    let path = path.join(name);
    written.map_err(|source| OpenError::Io { action: "write the end of", path, source })
}

/// Locks a directory until the returned file is closed.
fn lock(path: &Path) -> Result<File, OpenError> {
    let file = path.join(LOCK);
    let tried = |source: io::Error| OpenError::Io { action: "lock", path: file.clone(), source };
    let mut options = File::options();
    options.create(true).append(true);
    private::owner_only(&mut options);
    let lock = options.open(&file).map_err(tried)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.into() }),
        Err(TryLockError::Error(error)) => Err(tried(error)),
    }
}

/// Locks a directory against a broker until the returned file is closed, without changing it. Returns `None` if there
/// is no lock file, as in a copy, or if the lock file cannot be opened. A running broker is not detected then.
fn lock_to_read(path: &Path) -> Result<Option<File>, OpenError> {
    let file = path.join(LOCK);
    let Ok(lock) = File::open(&file) else { return Ok(None) };
    match lock.try_lock_shared() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.into() }),
        Err(TryLockError::Error(source)) => {
            Err(OpenError::Io { action: "lock", path: file, source })
        }
    }
}
