//! The layers of the modules of each crate, checked by [`super::module_imports`].

/// The modules directly under a crate's `src`, in layers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layers {
    /// The crate's folder, from the workspace root.
    pub(super) folder: &'static str,
    /// The layers, the lowest first. Each lists root files (without `.rs`) and folders (with their subfolders) that
    /// may import each other.
    pub(super) layers: &'static [&'static [&'static str]],
    /// Imports from a higher layer that are allowed.
    pub(super) exceptions: &'static [Exception],
}

/// A file that may name items of one higher layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exception {
    /// The importing file, from the workspace root.
    pub(super) file: &'static str,
    /// The higher module.
    pub(super) target: &'static str,
    /// Why the import cannot be removed.
    pub(super) reason: &'static str,
}

/// Maximum number of exceptions in one crate.
pub(super) const MAX_EXCEPTIONS: usize = 5;

/// The crates with layers.
pub(super) const CRATES: &[Layers] = &[Layers {
    folder: "crates/core",
    layers: &[
        &["error", "panic", "stage_set", "sync", "world"],
        &["control"],
        &["queue"],
        &["operation"],
        &["state"],
        &["memory"],
        &["mailbox"],
        &["session"],
        &["metrics"],
        &["stage"],
        &["program"],
        &["processor"],
        &["future"],
        &["handle"],
        &["sim"],
    ],
    exceptions: &[],
}];
