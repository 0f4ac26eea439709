//! The layers of `crates/core/src`, checked by [`super::core_imports`].

/// The layers of a crate's source: its root files, then its folders, bottom up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layers {
    /// Modules in files directly under `src`, without `.rs`. They form the lowest layer.
    pub(super) root: &'static [&'static str],
    /// Folders under `src`, the lowest first. A folder includes its subfolders.
    pub(super) folders: &'static [&'static str],
    /// Imports from a higher layer that are allowed.
    pub(super) exceptions: &'static [Exception],
}

/// A file that may name items of one higher layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exception {
    /// The importing file, from the workspace root.
    pub(super) file: &'static str,
    /// The higher folder.
    pub(super) target: &'static str,
    /// Why the import cannot be removed.
    pub(super) reason: &'static str,
}

/// Maximum number of exceptions.
pub(super) const MAX_EXCEPTIONS: usize = 5;

/// The layers of core.
pub(super) const CORE: Layers = Layers {
    root: &["error", "panic", "stage_set", "sync", "world"],
    folders: &[
        "control",
        "queue",
        "operation",
        "state",
        "memory",
        "mailbox",
        "session",
        "metrics",
        "stage",
        "program",
        "processor",
        "future",
        "handle",
        "sim",
    ],
    exceptions: &[],
};
